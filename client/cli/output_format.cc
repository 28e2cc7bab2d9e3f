#include "client/cli/output_format.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace widelane::cli {
namespace {

using client::Output;
using client::ScoreReply;

constexpr int kFloatDigits = 9;
constexpr int kDoubleDigits = 17;

template <typename T>
void AppendNumber(T number, int digits, std::string& out) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), number, std::chars_format::general, digits);
  out.append(text, end.ptr);
}

// Elements a row has in `array`; it must be the same for all rows.
template <typename T>
absl::StatusOr<size_t> Width(const std::vector<T>& array, const char* name, uint64_t rows) {
  if (array.empty() || array.size() % rows != 0) {
    return absl::InternalError(absl::StrCat("the reply has ", array.size(), " ", name, " for ", rows, " rows"));
  }
  return array.size() / rows;
}

struct Widths {
  size_t scores = 0, raw = 0, labels = 0, probabilities = 0, top = 0;
};

absl::StatusOr<Widths> CheckReply(const OutputFormat& format, const ScoreReply& reply, uint64_t rows) {
  Widths widths;
  const auto check = [rows](const auto& array, const char* name, size_t& width) {
    const auto result = Width(array, name, rows);
    if (result.ok()) width = *result;
    return result.status();
  };
  for (const Output output : format.outputs) {
    absl::Status status;
    if (output == Output::kScores) status = check(reply.scores, "scores", widths.scores);
    if (output == Output::kRaw) status = check(reply.raw, "raw sums", widths.raw);
    if (output == Output::kLabels) status = check(reply.labels, "labels", widths.labels);
    if (output == Output::kProbabilities) status = check(reply.probabilities, "probabilities", widths.probabilities);
    if (output == Output::kTopK) {
      status = check(reply.top_outputs, "best outputs", widths.top);
      if (reply.top_scores.size() != reply.top_outputs.size())
        status = absl::InternalError("the reply lacks top_scores");
    }
    if (!status.ok()) return status;
  }
  return widths;
}

template <typename T>
void AppendNumbers(const std::vector<T>& array, size_t width, uint64_t row, int digits, std::string& out) {
  for (size_t i = row * width; i < (row + 1) * width; ++i) {
    AppendNumber(array[i], digits, out);
    out += ' ';
  }
}

void AppendField(Output output, const ScoreReply& reply, const Widths& widths, uint64_t row, std::string& out) {
  if (output == Output::kScores) AppendNumbers(reply.scores, widths.scores, row, kFloatDigits, out);
  if (output == Output::kRaw) AppendNumbers(reply.raw, widths.raw, row, kDoubleDigits, out);
  if (output == Output::kLabels) absl::StrAppend(&out, reply.labels[row], " ");
  if (output == Output::kProbabilities) {
    AppendNumbers(reply.probabilities, widths.probabilities, row, kFloatDigits, out);
  }
  if (output == Output::kTopK) {
    for (size_t i = row * widths.top; i < (row + 1) * widths.top; ++i) {
      absl::StrAppend(&out, reply.top_outputs[i], ":");
      AppendNumber(reply.top_scores[i], kFloatDigits, out);
      out += ' ';
    }
  }
}

absl::Status ParseWord(absl::string_view word, OutputFormat& format) {
  Output output;
  if (word == "scores") {
    output = Output::kScores;
  } else if (word == "raw") {
    output = Output::kRaw;
  } else if (word == "labels") {
    output = Output::kLabels;
  } else if (word == "probabilities") {
    output = Output::kProbabilities;
  } else if (absl::StartsWith(word, "top:") && absl::SimpleAtoi(word.substr(4), &format.top_k) && format.top_k > 0) {
    output = Output::kTopK;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", word, "' is not an output; there are scores, raw, labels, probabilities and top:K"));
  }
  if (std::find(format.outputs.begin(), format.outputs.end(), output) != format.outputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("output '", word, "' comes twice"));
  }
  format.outputs.push_back(output);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutputFormat> ParseOutputFormat(const std::string& text) {
  OutputFormat format;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    if (absl::Status status = ParseWord(word, format); !status.ok()) return status;
  }
  return format;
}

absl::Status AppendLines(const OutputFormat& format, const ScoreReply& reply, uint64_t rows, std::string& out) {
  if (reply.rows != rows) {
    return absl::InternalError(absl::StrCat("the reply has ", reply.rows, " rows, ", rows, " were sent"));
  }
  if (rows == 0) return absl::OkStatus();
  const absl::StatusOr<Widths> widths = CheckReply(format, reply, rows);
  if (!widths.ok()) return widths.status();
  for (uint64_t row = 0; row < rows; ++row) {
    for (const Output output : format.outputs) AppendField(output, reply, *widths, row, out);
    out.back() = '\n';
  }
  return absl::OkStatus();
}

}  // namespace widelane::cli
