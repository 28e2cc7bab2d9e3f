// Which GPU the calling thread's CUDA calls go to.
//
// A lane's thread binds itself once. Other threads switch for the time of a call.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CURRENT_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CURRENT_DEVICE_H_

#include "absl/status/status.h"

namespace widelane::cuda {

// Binds the calling thread to `device` for good.
absl::Status BindThread(int device);

// Binds it unless it is bound already, to whatever device: for calls that may come from any thread and that work
// whichever device is current.
absl::Status BindIfUnbound(int device);

// Switches the calling thread to `device` and, in the destructor, back to the device it was bound to. A thread that was
// never bound stays: going "back" to the runtime's default would make a context on a GPU nobody selected.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device);
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  const int device_;
  const absl::Status status_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CURRENT_DEVICE_H_
