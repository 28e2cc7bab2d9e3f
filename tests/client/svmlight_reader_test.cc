#include "client/cli/svmlight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace widelane::cli {
namespace {

using ::testing::HasSubstr;

// "0:1 5:2 | | 3:0.5", rows divided by bars, or the error.
std::string Parsed(const std::string& text, int base = 1) {
  std::istringstream in(text);
  SvmlightReader reader(in, "rows.txt", base);
  client::Rows rows;
  const absl::StatusOr<bool> more = reader.Read(rows, 1000, 1000000);
  if (!more.ok()) return std::string(more.status().message());
  EXPECT_EQ(*more, rows.rows() > 0);
  const client::RowsView view = rows.view();
  const auto indptr = std::get<std::span<const int64_t>>(view.indptr);
  const auto indices = std::get<std::span<const int64_t>>(view.indices);
  const auto values = std::get<std::span<const float>>(view.values);
  std::ostringstream out;
  for (size_t r = 0; r < rows.rows(); ++r) {
    out << (r > 0 ? "|" : "");
    for (int64_t e = indptr[r]; e < indptr[r + 1]; ++e)
      out << (e > indptr[r] ? " " : "") << indices[e] << ':' << values[e];
  }
  return out.str();
}

TEST(SvmlightReader, ReadsRowsWithAndWithoutLabels) {
  EXPECT_EQ(Parsed("1 1:2 3:0.5\n-1 2:1\n"), "0:2 2:0.5|1:1");
  EXPECT_EQ(Parsed("1:2 3:0.5\n2:1\n"), "0:2 2:0.5|1:1");
  EXPECT_EQ(Parsed("0:2 3:1e-3\n", 0), "0:2 3:0.001");
}

TEST(SvmlightReader, SkipsWhatIsNotARow) {
  EXPECT_EQ(Parsed("# a comment\n\n   \t\n+1 qid:3 1:1 # of a row 2:2\nqid:4 2:1\n#1:1"), "0:1|1:1");
}

TEST(SvmlightReader, TakesALabelAloneAsAnEmptyRow) {
  EXPECT_EQ(Parsed("1\n-1 # nothing\n0 1:1\n"), "||0:1");
  EXPECT_EQ(Parsed("1,3 2:1\n1.5e0 1:1"), "1:1|0:1");
}

TEST(SvmlightReader, TakesAnyWhitespaceAndLineEnd) {
  EXPECT_EQ(Parsed("1\t1:1\t\t2:2 \r\n  1 3:1\r\n2:1"), "0:1 1:2|2:1|1:1");
  EXPECT_EQ(Parsed(""), "");
  EXPECT_EQ(Parsed("1 1:1"), "0:1");
}

TEST(SvmlightReader, KeepsOrderAndRepeats) { EXPECT_EQ(Parsed("1 5:1 2:2 5:3"), "4:1 1:2 4:3"); }

TEST(SvmlightReader, TakesNumbersInEveryForm) {
  EXPECT_EQ(Parsed("1 1:+1 2:-.5 3:1E2 4:1e-400 5:0"), "0:1 1:-0.5 2:100 3:0 4:0");
}

TEST(SvmlightReader, TakesHugeIndices) {
  EXPECT_EQ(Parsed("1 9223372036854775807:1"), "9223372036854775806:1");
  EXPECT_EQ(Parsed("1 1:1\n1 9223372036854775808:1"),
            "rows.txt:2: '9223372036854775808:1' has an index beyond 64 bits");
}

TEST(SvmlightReader, NamesLineAndTokenOfWhatIsWrong) {
  EXPECT_EQ(Parsed("1 1:1\n\n1 2:x\n"), "rows.txt:3: '2:x' has a value that is not a number");
  EXPECT_EQ(Parsed("1 0:1\n"),
            "rows.txt:1: '0:1' has index 0, and the first feature is 1; give --index-base 0 if the file counts from 0");
  EXPECT_EQ(Parsed("spam 1:1\n"), "rows.txt:1: 'spam' is neither a label nor INDEX:VALUE");
  EXPECT_EQ(Parsed("1 2 3:1\n"), "rows.txt:1: '2' is not INDEX:VALUE");
  EXPECT_THAT(Parsed("1 -1:1\n", 0), HasSubstr("'-1:1' has a negative index"));
  for (const char* token : {"1.5:1", ":1", "x:1", "1x:1", "+1:1", "0x1:1"}) {
    EXPECT_THAT(Parsed(absl::StrCat("1 ", token)), HasSubstr("is not INDEX:VALUE")) << token;
  }
  for (const char* token : {"1:", "1:1:1", "1:1x", "1:1,5"}) {
    EXPECT_THAT(Parsed(absl::StrCat("1 ", token)), HasSubstr("has a value that is not a number")) << token;
  }
  for (const char* token : {"1:nan", "1:inf", "1:-inf", "1:1e39", "1:1e999"}) {
    EXPECT_THAT(Parsed(absl::StrCat("1 ", token)), HasSubstr("not finite in float32")) << token;
  }
}

TEST(SvmlightReader, ShowsBadTokensSafely) {
  EXPECT_THAT(Parsed("1 \x1b[2J:1"), HasSubstr("'\\x1b[2J:1'"));
  EXPECT_THAT(Parsed("1 \xc2\x9b[2J:1"), HasSubstr("'\\xc2\\x9b[2J:1'"));
  EXPECT_THAT(Parsed(absl::StrCat("1 ", std::string(100000, 'x'))), HasSubstr("xxx...' is not"));
}

TEST(SvmlightReader, StopsAtTheLimitsAndGoesOn) {
  std::istringstream in("1 1:1\n1 1:2 2:2\n1 1:3\n1 1:4\n");
  SvmlightReader reader(in, "in", 1);
  client::Rows rows;
  ASSERT_TRUE(*reader.Read(rows, 1, 100));
  EXPECT_EQ(rows.rows(), 1);
  rows.Clear();
  ASSERT_TRUE(*reader.Read(rows, 100, 2));
  EXPECT_EQ(rows.rows(), 1);
  EXPECT_EQ(rows.entries(), 2);
  rows.Clear();
  ASSERT_TRUE(*reader.Read(rows, 2, 100));
  EXPECT_EQ(rows.rows(), 2);
  rows.Clear();
  EXPECT_FALSE(*reader.Read(rows, 2, 100));
}

TEST(SvmlightReader, KeepsTheRowsBeforeABadOne) {
  std::istringstream in("1 1:1\n1 2:2 3:3\n1 4:4 5:x\n");
  SvmlightReader reader(in, "in", 1);
  client::Rows rows;
  EXPECT_FALSE(reader.Read(rows, 100, 100).ok());
  EXPECT_EQ(rows.rows(), 2);
  EXPECT_EQ(rows.entries(), 3);
  EXPECT_EQ(std::get<std::span<const float>>(rows.view().values).size(), 3);
}

// Lines that lie across every boundary of the reader's buffer, and one longer than it.
TEST(SvmlightReader, ReadsLinesAcrossBuffers) {
  std::string text;
  size_t entries = 0;
  for (int row = 0; row < 3000; ++row) {
    text += "1";
    for (int e = 0; e <= row % 97; ++e, ++entries) absl::StrAppend(&text, " ", e + 1, ":", row);
    text += row % 2 == 0 ? "\n" : "\r\n";
  }
  text += "1";
  for (int e = 0; e < 100000; ++e) absl::StrAppend(&text, " ", e + 1, ":1");
  std::istringstream in(text);
  SvmlightReader reader(in, "in", 1);
  client::Rows rows;
  ASSERT_TRUE(*reader.Read(rows, 10000, 10000000));
  EXPECT_EQ(rows.rows(), 3001);
  EXPECT_EQ(rows.entries(), entries + 100000);
  EXPECT_EQ(reader.bytes_read(), text.size());
  const auto values = std::get<std::span<const float>>(rows.view().values);
  EXPECT_EQ(values[entries - 1], 2999);
}

}  // namespace
}  // namespace widelane::cli
