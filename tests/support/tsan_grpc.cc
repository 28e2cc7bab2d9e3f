// What the thread sanitizer has to know about gRPC and Abseil, whose libraries come without it.
//
// Their locks and queues are atomics that it does not see, so everything handed from thread to thread through them
// would look like a race. This file stands before the libraries' own functions, calls them, and tells the sanitizer
// what they order: a lock orders those who hold it, a call's start comes before its event, and so on. Linked into
// programs of the thread sanitizer's build only; compiled without our flags, since conversions of member functions are
// warned about.

#include <absl/synchronization/mutex.h>
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>

namespace {

// The library's function that `own` stands before.
template <typename Function>
Function Next(const void* own) {
  Dl_info info;
  void* next = ::dladdr(own, &info) != 0 ? ::dlsym(RTLD_NEXT, info.dli_sname) : nullptr;
  if (next == nullptr) std::abort();
  return reinterpret_cast<Function>(next);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>(reinterpret_cast<void*>(&Mutex::Lock));
  next(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>(reinterpret_cast<void*>(&Mutex::Unlock));
  __tsan_release(this);
  next(this);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>(reinterpret_cast<void*>(&Mutex::TryLock));
  const bool locked = next(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next = Next<void (*)(CondVar*, Mutex*)>(reinterpret_cast<void*>(&CondVar::Wait));
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto next =
      Next<bool (*)(CondVar*, Mutex*, Duration)>(reinterpret_cast<void*>(&CondVar::WaitWithTimeout));
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Time)>(reinterpret_cast<void*>(&CondVar::WaitWithDeadline));
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl

// An alarm's start.
bool grpc_cq_begin_op(grpc_completion_queue* queue, void* tag) {
  static const auto next = Next<decltype(&grpc_cq_begin_op)>(reinterpret_cast<void*>(&grpc_cq_begin_op));
  __tsan_release(tag);
  return next(queue, tag);
}

extern "C" {

// What those libraries do by themselves is theirs. So are threads that have ended and are not joined when a process
// leaves what hangs behind: gRPC joins its own some time later, and a std::thread cannot be forgotten.
const char* __tsan_default_options() {  // NOLINT: the sanitizer's name
  return "ignore_noninstrumented_modules=1:report_thread_leaks=0";
}

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag, void* reserved) {
  static const auto next = Next<decltype(&grpc_call_start_batch)>(reinterpret_cast<void*>(&grpc_call_start_batch));
  __tsan_release(tag);
  return next(call, ops, count, tag, reserved);
}

grpc_call_error grpc_server_request_call(grpc_server* server, grpc_call** call, grpc_call_details* details,
                                         grpc_metadata_array* metadata, grpc_completion_queue* call_queue,
                                         grpc_completion_queue* queue, void* tag) {
  static const auto next =
      Next<decltype(&grpc_server_request_call)>(reinterpret_cast<void*>(&grpc_server_request_call));
  __tsan_release(tag);
  return next(server, call, details, metadata, call_queue, queue, tag);
}

grpc_call_error grpc_server_request_registered_call(grpc_server* server, void* method, grpc_call** call,
                                                    gpr_timespec* deadline, grpc_metadata_array* metadata,
                                                    grpc_byte_buffer** payload, grpc_completion_queue* call_queue,
                                                    grpc_completion_queue* queue, void* tag) {
  static const auto next = Next<decltype(&grpc_server_request_registered_call)>(
      reinterpret_cast<void*>(&grpc_server_request_registered_call));
  __tsan_release(tag);
  return next(server, method, call, deadline, metadata, payload, call_queue, queue, tag);
}

void grpc_server_shutdown_and_notify(grpc_server* server, grpc_completion_queue* queue, void* tag) {
  static const auto next =
      Next<decltype(&grpc_server_shutdown_and_notify)>(reinterpret_cast<void*>(&grpc_server_shutdown_and_notify));
  __tsan_release(tag);
  next(server, queue, tag);
}

// A queue that is shut down ends its readers.
void grpc_completion_queue_shutdown(grpc_completion_queue* queue) {
  static const auto next =
      Next<decltype(&grpc_completion_queue_shutdown)>(reinterpret_cast<void*>(&grpc_completion_queue_shutdown));
  __tsan_release(queue);
  next(queue);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  static const auto next =
      Next<decltype(&grpc_completion_queue_next)>(reinterpret_cast<void*>(&grpc_completion_queue_next));
  const grpc_event event = next(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  if (event.type == GRPC_QUEUE_SHUTDOWN) __tsan_acquire(queue);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag, gpr_timespec deadline, void* reserved) {
  static const auto next =
      Next<decltype(&grpc_completion_queue_pluck)>(reinterpret_cast<void*>(&grpc_completion_queue_pluck));
  const grpc_event event = next(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

// Whoever lets go of a call last destroys what the others did with it.
void grpc_call_unref(grpc_call* call) {
  static const auto next = Next<decltype(&grpc_call_unref)>(reinterpret_cast<void*>(&grpc_call_unref));
  __tsan_release(call);
  next(call);
}

}  // extern "C"
