// What completion queues hand out: whom an event is for, and which it is.

#ifndef WIDELANE_SERVER_FRONT_QUEUE_TAG_H_
#define WIDELANE_SERVER_FRONT_QUEUE_TAG_H_

#include <cstdint>

namespace widelane {

class SoloScorer;

enum class QueueEvent : uint8_t { kRequest, kRead, kWrite, kDone, kFinish, kResume, kStall, kAge };

class QueueUser {
 public:
  virtual ~QueueUser() = default;
  // Any thread of the queue, which has `solo` to itself for the call. `ok` as gRPC means it for the operation.
  virtual void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) = 0;
};

struct QueueTag {
  QueueUser* user;
  QueueEvent event;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_QUEUE_TAG_H_
