// What `widelane score` prints of a reply: one line a row.

#ifndef WIDELANE_CLIENT_CLI_OUTPUT_FORMAT_H_
#define WIDELANE_CLIENT_CLI_OUTPUT_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/client/client.h"

namespace widelane::cli {

struct OutputFormat {
  std::vector<client::Output> outputs;  // in the order they are printed
  uint32_t top_k = 0;
};

// "scores,raw,labels,probabilities,top:3": any of these, none twice. Errors: INVALID_ARGUMENT naming the word.
absl::StatusOr<OutputFormat> ParseOutputFormat(const std::string& text);

// Appends the lines: fields separated by blanks, float32 with 9 significant digits and float64 with 17, so that they
// read back as the same number; the best k as INDEX:SCORE. Errors: INTERNAL when the reply lacks what was asked for or
// is not of `rows` rows.
absl::Status AppendLines(const OutputFormat& format, const client::ScoreReply& reply, uint64_t rows, std::string& out);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_OUTPUT_FORMAT_H_
