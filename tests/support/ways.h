// The two ways of scoring a request, for tests of what must not depend on the way.

#ifndef WIDELANE_TESTS_SUPPORT_WAYS_H_
#define WIDELANE_TESTS_SUPPORT_WAYS_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/support/rpc.h"
#include "tests/support/score_stream.h"

namespace widelane::test {

enum class Way { kScore, kScoreStream };

inline constexpr Way kWays[] = {Way::kScore, Way::kScoreStream};

// What gtest calls them.
inline std::string WayName(const ::testing::TestParamInfo<Way>& info) {
  return info.param == Way::kScore ? "Score" : "ScoreStream";
}

// As one call, or as the only message of a stream, which ends with OK whatever becomes of the message.
inline ScoreResult Score(Way way, v1::Scoring::StubInterface& stub, const v1::ScoreRequest& request) {
  if (way == Way::kScore) return Score(stub, request);
  constexpr uint64_t kId = 1;
  ScoreStream stream(stub);
  EXPECT_TRUE(stream.Send(kId, request));
  stream.Close();
  v1::StreamReply reply;
  ScoreResult result;
  if (!stream.Receive(reply)) {
    result.status = stream.Finish();
    EXPECT_FALSE(result.status.ok()) << "no answer";
    return result;
  }
  EXPECT_EQ(reply.id(), kId);
  const google::rpc::Status& error = reply.error();
  if (reply.has_error()) {
    result.status = {static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()};
  }
  result.reply.Swap(reply.mutable_reply());
  EXPECT_FALSE(stream.Receive(reply));
  EXPECT_TRUE(stream.Finish().ok());
  return result;
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_WAYS_H_
