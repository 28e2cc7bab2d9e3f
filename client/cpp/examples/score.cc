// Scores two rows: score HOST:PORT MODEL

#include <cstdio>

#include "widelane/client/client.h"

using widelane::client::Client;
using widelane::client::Output;
using widelane::client::Rows;
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

  Rows rows;
  rows.Add({3, 10, 40});             // three features, all with the value 1
  rows.Add({0, 7}, {0.5F, -1.25F});  // two features and their values

  ScoreRequest request;
  request.model = argv[2];
  request.rows = rows;
  request.outputs = {Output::kScores, Output::kRaw};
  const auto reply = (*client)->Score(request);
  if (!reply.ok()) {
    std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
    return 1;
  }
  for (size_t r = 0; r < reply->rows; ++r) {
    std::printf("row %zu: score %.9g, raw %.17g\n", r, reply->scores[r * reply->outputs],
                reply->raw[r * reply->outputs]);
  }
  return 0;
}
