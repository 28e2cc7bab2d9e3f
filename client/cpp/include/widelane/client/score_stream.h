// Many small requests on one call, which cost far less than a call each: what waits while something is being sent goes
// in one message. Answers come as they are done, in any order.
//
//   auto stream = client->OpenStream({});
//   stream->Score(request, [](absl::StatusOr<ScoreReply> reply) { ... });

#ifndef WIDELANE_CLIENT_SCORE_STREAM_H_
#define WIDELANE_CLIENT_SCORE_STREAM_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "widelane/client/types.h"

namespace widelane::client {

struct StreamOptions {
  // Requests that wait for an answer at once; 0 counts as 1.
  size_t max_in_flight = 256;
  // What Score does when there are that many: refuse with RESOURCE_EXHAUSTED, or wait.
  bool refuse_when_full = false;
};

// All functions may be called from any number of threads. Errors of one request are its own and leave the others alone.
//
// When the call ends with UNAVAILABLE (the server stops, or wants the connection to be made anew) the stream opens
// another and sends again what was unanswered, ClientOptions::max_attempts times in all. Any other end of the call is
// the answer of what was in flight. Either way the stream stays of use.
class ScoreStream {
 public:
  // Close.
  ~ScoreStream();

  // Encodes the request before it returns. `done` runs once: on the stream's own thread or, when nothing could be sent,
  // inside the call. It must not block; Score inside it refuses where it would wait. The deadline counts from here and
  // holds even if the server never answers. Errors besides those of Client::Score: RESOURCE_EXHAUSTED for a stream that
  // is full, FAILED_PRECONDITION for one that is closed. The first request waits for a GetModel, as the first call of a
  // client does.
  void Score(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done);
  // Waits for the answer. FAILED_PRECONDITION inside a `done`.
  absl::StatusOr<ScoreReply> Score(const ScoreRequest& request);

  // Takes no more requests and waits for what is in flight. Not inside a `done`.
  void Close();

 private:
  friend class Client;
  class Impl;
  explicit ScoreStream(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SCORE_STREAM_H_
