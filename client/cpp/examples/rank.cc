// Ranks candidates for three users over one stream: rank HOST:PORT MODEL

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "widelane/client/client.h"

using widelane::client::Client;
using widelane::client::Priority;
using widelane::client::Rows;
using widelane::client::ScoreReply;
using widelane::client::ScoreRequest;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOST:PORT MODEL\n", argv[0]);
    return 2;
  }
  const auto client = Client::Connect(argv[1], {});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }

  Rows candidates;  // only what is their own
  candidates.Add({3, 10});
  candidates.Add({3, 12, 40});

  std::atomic<int> failed{0};
  const auto stream = (*client)->OpenStream({});
  for (const int64_t user : {0, 1, 2}) {
    Rows context;  // sent and summed once for all candidates
    context.Add({user, 7});
    ScoreRequest request;
    request.model = argv[2];
    request.rows = candidates;
    request.contexts = context;
    request.priority = Priority::kHigh;
    stream->Score(request, [user, &failed](const absl::StatusOr<ScoreReply>& reply) {
      if (!reply.ok()) {
        std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
        ++failed;
        return;
      }
      const auto best = std::max_element(reply->scores.begin(), reply->scores.end());
      std::printf("user %d: candidate %d, score %.9g\n", static_cast<int>(user),
                  static_cast<int>(best - reply->scores.begin()), *best);
    });
  }
  stream->Close();  // waits for the answers
  return failed == 0 ? 0 : 1;
}
