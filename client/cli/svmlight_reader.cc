#include "client/cli/svmlight_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/printable.h"

namespace widelane::cli {
namespace {

constexpr size_t kChunkBytes = 1 << 18;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// The next token of `line`, cut off its front; empty when there is none.
std::string_view NextToken(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
  const std::string_view token = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return token;
}

bool IsLabel(std::string_view token) {
  while (true) {
    const size_t comma = std::min(token.find(','), token.size());
    double ignored;
    if (!absl::SimpleAtod(Absl(token.substr(0, comma)), &ignored)) return false;
    if (comma == token.size()) return true;
    token.remove_prefix(comma + 1);
  }
}

}  // namespace

SvmlightReader::SvmlightReader(std::istream& in, std::string name, int index_base)
    : in_(in), name_(std::move(name)), index_base_(index_base), buffer_(kChunkBytes) {}

absl::StatusOr<bool> SvmlightReader::Read(client::Rows& rows, size_t max_rows, size_t max_entries) {
  const size_t before = rows.rows();
  while (rows.rows() < max_rows && rows.entries() < max_entries) {
    const absl::StatusOr<bool> more = NextLine();
    if (!more.ok()) return more.status();
    if (!*more) break;
    const absl::StatusOr<bool> row = ParseLine(rows);
    if (!row.ok()) {
      rows.DropUnfinishedRow();
      return row.status();
    }
    if (*row) rows.EndRow();
  }
  return rows.rows() > before;
}

absl::StatusOr<bool> SvmlightReader::NextLine() {
  size_t searched = 0;
  while (true) {
    const char* start = buffer_.data() + begin_;
    const void* newline = std::memchr(start + searched, '\n', end_ - begin_ - searched);
    size_t length = end_ - begin_;
    if (newline != nullptr) length = static_cast<const char*>(newline) - start;
    if (newline != nullptr || (ended_ && length > 0)) {
      ++line_number_;
      line_ = std::string_view(start, length);
      if (line_.ends_with('\r')) line_.remove_suffix(1);
      begin_ += length + (newline != nullptr ? 1 : 0);
      return true;
    }
    if (ended_) return false;
    searched = length;
    if (absl::Status status = Refill(); !status.ok()) return status;
  }
}

absl::Status SvmlightReader::Refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ >= kMaxLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", line_number_ + 1, ": the line is longer than ", kMaxLineBytes, " bytes"));
  }
  if (buffer_.size() - end_ < kChunkBytes) buffer_.resize(std::max(buffer_.size() * 2, end_ + kChunkBytes));
  in_.read(buffer_.data() + end_, static_cast<std::streamsize>(kChunkBytes));
  const auto got = static_cast<size_t>(in_.gcount());
  end_ += got;
  bytes_read_ += got;
  if (in_.bad()) return absl::DataLossError(absl::StrCat("cannot read ", name_, " beyond line ", line_number_));
  ended_ = !in_;
  return absl::OkStatus();
}

absl::StatusOr<bool> SvmlightReader::ParseLine(client::Rows& rows) {
  std::string_view line = line_.substr(0, line_.find('#'));
  std::string_view token = NextToken(line);
  if (token.empty()) return false;
  if (token.find(':') == std::string_view::npos) {
    if (!IsLabel(token)) return Error(token, "is neither a label nor INDEX:VALUE");
    token = NextToken(line);
  }
  if (token.starts_with("qid:")) token = NextToken(line);
  for (; !token.empty(); token = NextToken(line)) {
    if (absl::Status status = ParseEntry(token, rows); !status.ok()) return status;
  }
  return true;
}

absl::Status SvmlightReader::ParseEntry(std::string_view token, client::Rows& rows) const {
  const size_t colon = token.find(':');
  if (colon == std::string_view::npos) return Error(token, "is not INDEX:VALUE");
  const char* const end_of_index = token.data() + colon;
  int64_t index = 0;
  const auto parsed = std::from_chars(token.data(), end_of_index, index);
  if (parsed.ec == std::errc::result_out_of_range) return Error(token, "has an index beyond 64 bits");
  if (parsed.ec != std::errc() || parsed.ptr != end_of_index) return Error(token, "is not INDEX:VALUE");
  if (index < 0) return Error(token, "has a negative index");
  if (index < index_base_) {
    return Error(token, "has index 0, and the first feature is 1; give --index-base 0 if the file counts from 0");
  }
  double value = 0;
  if (!absl::SimpleAtod(Absl(token.substr(colon + 1)), &value)) return Error(token, "has a value that is not a number");
  if (!std::isfinite(value) || !std::isfinite(static_cast<float>(value))) {
    return Error(token, "has a value that is not finite in float32");
  }
  rows.AddEntry(index - index_base_, static_cast<float>(value));
  return absl::OkStatus();
}

absl::Status SvmlightReader::Error(std::string_view token, std::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ":", line_number_, ": '", Printable(Absl(token)), "' ", Absl(problem)));
}

}  // namespace widelane::cli
