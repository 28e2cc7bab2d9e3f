#include "src/convert.h"

#include <chrono>

#include "src/encode.h"

namespace widelane::client {
namespace {

v1::Output ToMessage(Output output) {
  switch (output) {
    case Output::kScores:
      return v1::SCORES;
    case Output::kRaw:
      return v1::RAW;
    case Output::kLabels:
      return v1::LABELS;
    case Output::kProbabilities:
      return v1::PROBABILITIES;
    case Output::kTopK:
      return v1::TOP_K;
  }
  return v1::OUTPUT_UNSPECIFIED;
}

v1::Priority ToMessage(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return v1::HIGH;
    case Priority::kNormal:
      return v1::NORMAL;
    case Priority::kLow:
      return v1::LOW;
    case Priority::kDefault:
      break;
  }
  return v1::PRIORITY_UNSPECIFIED;
}

StageTimes TimesFrom(const v1::StageTimes& times) {
  using std::chrono::nanoseconds;
  StageTimes result;
  result.queue = nanoseconds(times.queue_ns());
  result.pack = nanoseconds(times.pack_ns());
  result.launch = nanoseconds(times.launch_ns());
  result.transfer_in = nanoseconds(times.transfer_in_ns());
  result.compute = nanoseconds(times.compute_ns());
  result.transfer_out = nanoseconds(times.transfer_out_ns());
  result.reply = nanoseconds(times.reply_ns());
  result.total = nanoseconds(times.total_ns());
  result.device = times.device();
  result.batches = times.batches();
  result.batch_rows = times.batch_rows();
  return result;
}

ModelInfo::State StateFrom(v1::ModelInfo::State state) {
  switch (state) {
    case v1::ModelInfo::LOADING:
      return ModelInfo::State::kLoading;
    case v1::ModelInfo::AVAILABLE:
      return ModelInfo::State::kAvailable;
    case v1::ModelInfo::FAILED:
      return ModelInfo::State::kFailed;
    default:
      return ModelInfo::State::kUnknown;
  }
}

}  // namespace

absl::Status ToMessage(const ScoreRequest& request, v1::ScoreRequest& out) {
  out.set_model(request.model);
  out.set_version(request.version);
  for (const Output output : request.outputs) out.add_outputs(ToMessage(output));
  out.set_top_k(request.top_k);
  out.set_stage_times(request.stage_times);
  out.set_priority(ToMessage(request.priority));
  if (absl::Status status = EncodeRows(request.rows, *out.mutable_rows()); !status.ok()) return status;
  return EncodeContexts(request.rows, request.contexts, request.context_of, out);
}

ScoreReply FromMessage(const v1::ScoreReply& reply) {
  ScoreReply result;
  result.version = reply.version();
  result.rows = reply.rows();
  result.outputs = reply.outputs();
  result.scores.assign(reply.scores().begin(), reply.scores().end());
  result.raw.assign(reply.raw().begin(), reply.raw().end());
  result.labels.assign(reply.labels().begin(), reply.labels().end());
  result.probabilities.assign(reply.probabilities().begin(), reply.probabilities().end());
  result.top_outputs.assign(reply.top_outputs().begin(), reply.top_outputs().end());
  result.top_scores.assign(reply.top_scores().begin(), reply.top_scores().end());
  result.positive_label = reply.positive_label();
  result.ignored_features = reply.ignored_features();
  if (reply.has_stage_times()) result.stage_times = TimesFrom(reply.stage_times());
  return result;
}

ModelInfo FromMessage(const v1::ModelInfo& info) {
  ModelInfo result;
  result.name = info.name();
  result.version = info.version();
  result.state = StateFrom(info.state());
  result.error = info.error();
  result.features = info.features();
  result.outputs = info.outputs();
  result.link = info.link();
  result.labels.assign(info.labels().begin(), info.labels().end());
  result.weight_type = info.weight_type();
  result.has_probabilities = info.has_probabilities();
  result.ignores_unknown_features = info.ignores_unknown_features();
  result.source = info.source();
  result.digest = info.digest();
  result.devices.assign(info.devices().begin(), info.devices().end());
  result.max_message_bytes = info.max_message_bytes();
  result.max_rows = info.max_rows();
  result.max_entries = info.max_entries();
  return result;
}

const char* StateName(ModelInfo::State state) {
  switch (state) {
    case ModelInfo::State::kLoading:
      return "loading";
    case ModelInfo::State::kAvailable:
      return "available";
    case ModelInfo::State::kFailed:
      return "failed";
    case ModelInfo::State::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace widelane::client
