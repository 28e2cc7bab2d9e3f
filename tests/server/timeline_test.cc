#include "server/observe/trace/timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/observe/trace/trace_endpoint.h"

namespace widelane {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() {
    recording_->start = At(0);
    recording_->end = At(1000);
    recording_->first_request = 10;
    recording_->last_request = 19;
    recording_->first_batch = 5;
    recording_->last_batch = 9;
  }

  static TracePoint At(int us) { return TracePoint() + std::chrono::hours(1) + microseconds(us); }

  static RequestRecord Request(uint64_t number) {
    RequestRecord request;
    request.number = number;
    request.method = "Score";
    request.priority = "normal";
    request.batches = 1;
    request.receiver = 70;
    request.replier = 71;
    request.rows = 3;
    request.model = ShortName("a \"name\"\xff");
    request.received = At(10);
    request.prepared = At(20);
    request.results_ready = At(80);
    request.answering = At(81);
    request.answered = At(90);
    return request;
  }
  static SegmentRecord Segment(uint64_t request, uint64_t batch) {
    SegmentRecord segment;
    segment.packer = 70;
    segment.rows = 3;
    segment.whole = true;
    segment.request = request;
    segment.batch = batch;
    segment.pack_begin = At(25);
    segment.pack_end = At(30);
    segment.sealed = At(40);
    segment.done = At(80);
    return segment;
  }
  static BatchRecord Batch(uint64_t number) {
    BatchRecord batch;
    batch.number = number;
    batch.slot = 2;
    batch.route = Route::kCopied;
    batch.opened = At(22);
    batch.sealed = At(40);
    batch.done = At(79);
    return batch;
  }
  static TracePieceRecord Piece(uint64_t batch, int lane) {
    TracePieceRecord piece;
    piece.tag = BatchTag(batch);
    piece.device = 1;
    piece.lane = lane;
    piece.submitted = At(41);
    piece.begun = At(45);
    piece.launched = At(48);
    piece.done = At(78);
    return piece;
  }

  // The events whose member `key` is `value`.
  static std::vector<json> With(const json& events, const std::string& key, const std::string& value) {
    std::vector<json> found;
    for (const json& event : events) {
      if (event.contains(key) && event[key] == value) found.push_back(event);
    }
    return found;
  }

  json Write(size_t most = SIZE_MAX) {
    std::string text;
    DeviceInfo cpu;
    cpu.id = "cpu";
    cpu.name = "a CPU";
    DeviceInfo gpu;
    gpu.id = "GPU-1";
    gpu.name = "a GPU";
    complete_ = WriteTimeline(*recording_, {cpu, gpu}, [&](absl::string_view piece) {
      text.append(piece.data(), piece.size());
      return text.size() < most;
    });
    return complete_ ? json::parse(text) : json();
  }

  const std::unique_ptr<Recording> recording_ = Recording::Create(1 << 20);
  bool complete_ = false;
};

TEST_F(TimelineTest, SaysWhatItIsAbout) {
  recording_->Add(Request(10));
  recording_->Add(Batch(5));
  const json trace = Write();
  const json& about = trace["otherData"];
  EXPECT_EQ(about["requests"], 1);
  EXPECT_EQ(about["batches"], 1);
  EXPECT_EQ(about["length_ms"], 1);
  EXPECT_EQ(about["dropped_records"], 0);
}

TEST_F(TimelineTest, DrawsARequestWithItsStages) {
  RequestRecord of_a_trace = Request(10);
  of_a_trace.trace_id = ShortName("4bf92f3577b34da6a3ce929d0e0e4736");
  recording_->Add(of_a_trace);
  recording_->Add(Segment(10, 0));
  const json events = Write()["traceEvents"];
  std::vector<std::string> spans;
  for (const json& event : events) {
    if (!event.contains("id2")) continue;
    EXPECT_EQ(event["id2"]["local"], "10");
    spans.push_back(event["ph"].get<std::string>() + " " + event["name"].get<std::string>() + " " +
                    std::to_string(event["ts"].get<int>()));
  }
  EXPECT_EQ(spans, (std::vector<std::string>{"b queue 20", "e queue 25", "b pack 25", "e pack 30", "b queue 30",
                                             "e queue 40", "b batch 40", "e batch 80", "b Score 10", "b reply 80",
                                             "e reply 90", "e Score 90"}));
  const json request = With(events, "name", "Score").at(0);
  EXPECT_EQ(request["args"]["model"], "a \"name\"\xEF\xBF\xBD");
  EXPECT_EQ(request["args"]["status"], "OK");
  EXPECT_EQ(request["args"]["rows"], 3);
  EXPECT_EQ(request["args"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_F(TimelineTest, DrawsALaneAndItsStagesOnTracksOfTheirOwn) {
  recording_->Add(Batch(5));
  recording_->Add(Piece(5, 1));
  SpanRecord span;
  span.tag = BatchTag(5);
  span.device = 1;
  span.lane = 1;
  span.stage = Stage::kTransferIn;
  span.begin = At(46);
  span.end = At(60);
  recording_->Add(span);
  const json events = Write()["traceEvents"];
  const json transfer = With(events, "name", "transfer_in").at(0);
  EXPECT_EQ(transfer["ts"], 46.0);
  EXPECT_EQ(transfer["dur"], 14.0);
  EXPECT_EQ(transfer["args"]["batch"], 5);
  std::string track;
  for (const json& name : With(events, "name", "thread_name")) {
    if (name["pid"] == transfer["pid"] && name["tid"] == transfer["tid"]) track = name["args"]["name"];
  }
  EXPECT_EQ(track, "lane 1 transfer_in");
  EXPECT_EQ(With(events, "name", "launch").at(0)["dur"], 3.0);
  // The batch ran from when a lane took it.
  EXPECT_EQ(With(events, "name", "queued").at(0)["dur"], 5.0);
  EXPECT_EQ(With(events, "ph", "s").at(0)["id"], "0x1");
  EXPECT_EQ(With(events, "ph", "f").at(0)["id"], "0x1");
}

TEST_F(TimelineTest, DrawsNoArrowsToWhatIsNotThere) {
  recording_->Add(Request(10));
  recording_->Add(Segment(10, 6));  // of a batch that was not recorded
  recording_->Add(Segment(11, 5));  // of a request that was not
  recording_->Add(Batch(5));
  recording_->Add(Piece(6, 0));
  const json events = Write()["traceEvents"];
  EXPECT_TRUE(With(events, "ph", "t").empty());
  EXPECT_EQ(With(events, "ph", "s").size(), 1U);  // from the request to its reply
  EXPECT_EQ(With(events, "ph", "f").size(), 1U);
}

TEST_F(TimelineTest, LeavesOutWhatBeganBefore) {
  recording_->Add(Request(9));
  recording_->Add(Batch(4));
  recording_->Add(Request(20));
  const json trace = Write();
  EXPECT_EQ(trace["otherData"]["requests"], 0);
  EXPECT_EQ(trace["otherData"]["batches"], 0);
  EXPECT_TRUE(With(trace["traceEvents"], "ph", "X").empty());
  EXPECT_TRUE(With(trace["traceEvents"], "ph", "b").empty());
}

TEST_F(TimelineTest, StopsWhenNoMoreIsWanted) {
  for (uint64_t i = 0; i < 1000; ++i) recording_->Add(CountersRecord());
  Write(10'000);
  EXPECT_FALSE(complete_);
}

TEST(TraceTimeTest, TakesSecondsUpToAMinute) {
  EXPECT_EQ(*TraceTime("seconds=60"), std::chrono::seconds(60));
  EXPECT_EQ(*TraceTime("a=b&seconds=0.25"), std::chrono::milliseconds(250));
  for (const char* query : {"", "seconds", "seconds=", "seconds=0", "seconds=-1", "seconds=60.1", "seconds=inf",
                            "seconds=nan", "seconds=1s", "seconds=00000000000000000000000000000000000001"}) {
    EXPECT_FALSE(TraceTime(query).ok()) << query;
  }
}

}  // namespace
}  // namespace widelane
