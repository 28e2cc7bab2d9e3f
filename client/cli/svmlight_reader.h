// Reads rows in svmlight (libsvm) form, some at a time:
//
//   [LABEL] [qid:N] INDEX:VALUE ... [# comment]
//
// Fields are separated by spaces or tabs, lines end in LF or CRLF. Labels (numbers, separated by commas if there are
// several) and qid are ignored. A line with a label alone is an empty row; a blank line or one with a comment alone is
// none.

#ifndef WIDELANE_CLIENT_CLI_SVMLIGHT_READER_H_
#define WIDELANE_CLIENT_CLI_SVMLIGHT_READER_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/client/rows.h"

namespace widelane::cli {

// Bytes a line may have. The longest row a model takes is well below.
inline constexpr size_t kMaxLineBytes = size_t{1} << 30;

class SvmlightReader {
 public:
  // `name` stands for the input in messages. `index_base` is what the first feature is called, 0 or 1. `in` outlives
  // the reader.
  SvmlightReader(std::istream& in, std::string name, int index_base);

  // Adds rows to `rows` until there are `max_rows` or at least `max_entries` in it, or the input ends. False when it
  // has ended and nothing was added. Errors: INVALID_ARGUMENT naming file, line and token, DATA_LOSS; `rows` holds the
  // rows before the error then.
  absl::StatusOr<bool> Read(client::Rows& rows, size_t max_rows, size_t max_entries);

  uint64_t bytes_read() const { return bytes_read_; }

 private:
  // Sets line_ to the next line without its end. False at the end of the input.
  absl::StatusOr<bool> NextLine();
  absl::Status Refill();
  // True if the line is a row.
  absl::StatusOr<bool> ParseLine(client::Rows& rows);
  absl::Status ParseEntry(std::string_view token, client::Rows& rows) const;
  absl::Status Error(std::string_view token, std::string_view problem) const;

  std::istream& in_;
  const std::string name_;
  const int index_base_;
  std::vector<char> buffer_;  // [begin_, end_) is not used yet
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
  std::string_view line_;
  uint64_t line_number_ = 0;
  uint64_t bytes_read_ = 0;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_SVMLIGHT_READER_H_
