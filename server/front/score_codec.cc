#include "server/front/score_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/front/limits.h"
#include "server/front/rows_reader.h"
#include "widelane/engine/errors.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

namespace {

using Kind = FieldReader::Kind;
using google::protobuf::io::CodedInputStream;

absl::Status AddOutput(uint64_t output, uint8_t& outputs) {
  switch (output) {
    case v1::SCORES:
      outputs |= kReplyScores;
      return absl::OkStatus();
    case v1::RAW:
      outputs |= kReplyRaw;
      return absl::OkStatus();
    case v1::LABELS:
      outputs |= kReplyLabels;
      return absl::OkStatus();
    case v1::PROBABILITIES:
      outputs |= kReplyProbabilities;
      return absl::OkStatus();
    case v1::TOP_K:
      outputs |= kReplyTopK;
      return absl::OkStatus();
    default:
      return FieldError("outputs", absl::StrCat("has the unknown output ", output));
  }
}

absl::StatusOr<Priority> ToPriority(uint64_t priority) {
  switch (priority) {
    case v1::HIGH:
      return Priority::kHigh;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::NORMAL:
      return Priority::kNormal;
    case v1::LOW:
      return Priority::kLow;
    default:
      return FieldError("priority", absl::StrCat("has the unknown value ", priority));
  }
}

template <typename T>
void TrimList(std::vector<T>& list) {
  if (list.capacity() > kFreeElements) std::vector<T>().swap(list);
}

void TrimText(std::string& text) {
  if (text.capacity() > kFreeElements) std::string().swap(text);
}

void TrimRows(RowsMemory& rows) {
  TrimList(rows.indptr);
  TrimList(rows.indices);
  TrimList(rows.values);
  TrimList(rows.indptr_pieces);
  TrimList(rows.row_lengths_pieces);
  TrimList(rows.indices_pieces);
  TrimList(rows.values_pieces);
}

// One ScoreRequest, whose fields may come in several parts.
class RequestReader {
 public:
  RequestReader(ReadContext context, ScoreRequestView& request)
      : context_(context),
        request_(request),
        rows_("rows", request.rows_memory),
        contexts_("contexts", request.contexts_memory),
        context_of_(request.context_of_pieces) {
    request.model = request.version = {};
    request.outputs = 0;
    request.top_k = 0;
    request.stage_times = false;
    request.context_of.clear();
  }

  // Up to the end of the innermost MessageScope.
  absl::Status Read() {
    FieldReader reader(context_.in);
    while (reader.Next()) {
      if (absl::Status status = ReadField(reader); !status.ok()) return status;
    }
    return reader.broken() ? Garbled("the request") : absl::OkStatus();
  }

  absl::Status Finish() {
    if (request_.outputs == 0) request_.outputs = kReplyScores;
    const absl::StatusOr<Priority> priority = ToPriority(priority_);
    if (!priority.ok()) return priority.status();
    request_.priority = *priority;
    if (absl::Status status = rows_.Get(request_.csr); !status.ok()) return status;
    if (absl::Status status = FinishContexts(); !status.ok()) return status;
    return CheckLimits();
  }

 private:
  absl::Status ReadField(FieldReader& reader) {
    switch (reader.number()) {
      case v1::ScoreRequest::kModelFieldNumber:
        return ReadText(reader, request_.model_text, request_.model);
      case v1::ScoreRequest::kVersionFieldNumber:
        return ReadText(reader, request_.version_text, request_.version);
      case v1::ScoreRequest::kRowsFieldNumber:
        return rows_.Add(context_, reader);
      case v1::ScoreRequest::kOutputsFieldNumber:
        return ReadOutputs(reader);
      case v1::ScoreRequest::kContextsFieldNumber:
        return contexts_.Add(context_, reader);
      case v1::ScoreRequest::kContextOfFieldNumber:
        return context_of_.Add(context_, reader);
      case v1::ScoreRequest::kPlainContextOfFieldNumber:
        return AddIntegers(context_, reader, context_.limits.max_request_rows, request_.context_of);
      default:
        break;
    }
    if (reader.kind() != Kind::kVarint) return absl::OkStatus();
    if (reader.number() == v1::ScoreRequest::kTopKFieldNumber) request_.top_k = static_cast<uint32_t>(reader.value());
    if (reader.number() == v1::ScoreRequest::kStageTimesFieldNumber) request_.stage_times = reader.value() != 0;
    if (reader.number() == v1::ScoreRequest::kPriorityFieldNumber) priority_ = reader.value();
    return absl::OkStatus();
  }

  // Where it lies if that is one place, else put together in `memory`.
  absl::Status ReadText(FieldReader& reader, std::string& memory, absl::string_view& text) {
    if (reader.kind() != Kind::kBytes) return absl::OkStatus();
    const int size = reader.TakeBytes();
    const void* data = nullptr;
    int available = 0;
    if (size == 0) {
      text = {};
      return absl::OkStatus();
    }
    if (context_.in.GetDirectBufferPointer(&data, &available) && available >= size) {
      text = {static_cast<const char*>(data), static_cast<size_t>(size)};
      context_.in.Skip(size);
      return absl::OkStatus();
    }
    if (static_cast<size_t>(size) > kFreeElements) {
      if (absl::Status status = context_.take(static_cast<uint64_t>(size)); !status.ok()) return status;
    }
    if (!context_.in.ReadString(&memory, size)) return Garbled("a name");
    text = memory;
    return absl::OkStatus();
  }

  absl::Status ReadOutputs(FieldReader& reader) {
    if (reader.kind() == Kind::kVarint) return AddOutput(reader.value(), request_.outputs);
    if (reader.kind() != Kind::kBytes) return absl::OkStatus();
    const MessageScope scope(context_.in, reader.TakeBytes());
    while (context_.in.BytesUntilLimit() > 0) {
      uint64_t output = 0;
      if (!context_.in.ReadVarint64(&output)) return Garbled("outputs");
      if (absl::Status status = AddOutput(output, request_.outputs); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status FinishContexts() {
    request_.contexts.reset();
    const std::vector<uint32_t>& plain = request_.context_of;
    const auto of = context_of_.Get("context_of", "plain_context_of",
                                    TypedArray::Of(ElementType::kU32, plain.data(), plain.size()));
    if (!of.ok()) return of.status();
    if (!contexts_.present()) {
      return of->has_value() ? FieldError("context_of", "is given without contexts") : absl::OkStatus();
    }
    RowContexts& contexts = request_.contexts.emplace();
    contexts.of = *of;
    return contexts_.Get(contexts.features);
  }

  absl::Status CheckLimits() const {
    uint64_t rows = RowsReader::CountRows(request_.csr);
    uint64_t entries = request_.csr.indices.count;
    if (request_.contexts.has_value()) {
      rows += RowsReader::CountRows(request_.contexts->features);
      entries += request_.contexts->features.indices.count;
    }
    const LimitsConfig& limits = context_.limits;
    if (rows > limits.max_request_rows) {
      return LimitError(kMaxRequestRows, limits.max_request_rows, "rows of the request:", rows);
    }
    if (entries > limits.max_request_entries) {
      return LimitError(kMaxRequestEntries, limits.max_request_entries, "entries of the request:", entries);
    }
    return absl::OkStatus();
  }

  ReadContext context_;
  ScoreRequestView& request_;
  RowsReader rows_;
  RowsReader contexts_;
  ArrayReader context_of_;
  uint64_t priority_ = 0;
};

// What is wrong with the request ends its own part of the message only.
absl::Status ReadPart(RequestReader& request, CodedInputStream& in, int size) {
  const MessageScope scope(in, size);
  absl::Status status = request.Read();
  in.Skip(in.BytesUntilLimit());
  return status;
}

}  // namespace

void ScoreRequestView::Trim() {
  TrimRows(rows_memory);
  TrimRows(contexts_memory);
  TrimList(context_of);
  TrimList(context_of_pieces);
  TrimText(model_text);
  TrimText(version_text);
}

absl::Status DecodeScoreRequest(CodedInputStream& in, int size, const LimitsConfig& limits, TakeMemory take,
                                ScoreRequestView& request) {
  RequestReader reader({in, limits, take}, request);
  const MessageScope scope(in, size);
  if (absl::Status status = reader.Read(); !status.ok()) return status;
  return reader.Finish();
}

void DecodeStreamRequest(CodedInputStream& in, int size, const LimitsConfig& limits, TakeMemory take,
                         StreamRequestView& message) {
  message.id = 0;
  message.timeout_ms = 0;
  RequestReader request({in, limits, take}, message.request);
  const MessageScope scope(in, size);
  FieldReader reader(in);
  while (reader.Next()) {
    if (reader.Is(v1::StreamRequest::kIdFieldNumber, Kind::kVarint)) message.id = reader.value();
    if (reader.Is(v1::StreamRequest::kTimeoutMsFieldNumber, Kind::kVarint)) {
      message.timeout_ms = static_cast<uint32_t>(reader.value());
    }
    if (!message.error.ok() || !reader.Is(v1::StreamRequest::kRequestFieldNumber, Kind::kBytes)) continue;
    message.error = ReadPart(request, in, reader.TakeBytes());
  }
  if (message.error.ok() && reader.broken()) {
    message.error = absl::InvalidArgumentError("the message is not a StreamRequest: it is cut short or garbled");
  }
  if (message.error.ok()) message.error = request.Finish();
}

bool StreamRequestsReader::Next() {
  do {
    // What is walked again from here on must begin with a tag, not with the rest of an unknown field.
    if (!fields_.SkipUntaken()) return false;
    begin_ = in_.CurrentPosition();
    if (!fields_.Next()) return false;
  } while (!fields_.Is(v1::StreamRequests::kRequestsFieldNumber, Kind::kBytes));
  size_ = fields_.TakeBytes();
  return true;
}

void StreamRequestsReader::Read(absl::FunctionRef<void(CodedInputStream& in, int size)> read) {
  const MessageScope scope(in_, size_);
  read(in_, size_);
  in_.Skip(in_.BytesUntilLimit());
}

}  // namespace widelane
