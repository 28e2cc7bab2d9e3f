#include "server/front/trace_parent.h"

#include <algorithm>
#include <iterator>

namespace widelane {

namespace {

constexpr char kKey[] = "traceparent";
// "00-" 32 digits "-" 16 digits "-" 2 digits
constexpr size_t kTraceId = 3;
constexpr size_t kParentId = kTraceId + 32 + 1;
constexpr size_t kFlags = kParentId + 16 + 1;
constexpr size_t kSize = kFlags + 2;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view text) { return text.find_first_not_of('0') == absl::string_view::npos; }

template <size_t kDigits>
bool TakeId(absl::string_view text, std::array<char, kDigits>& id) {
  text = text.substr(0, kDigits);
  std::copy(text.begin(), text.end(), id.begin());
  return IsHex(text) && !IsZero(text);
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view text) {
  if (text.size() < kSize || text[kTraceId - 1] != '-' || text[kParentId - 1] != '-' || text[kFlags - 1] != '-') {
    return {};
  }
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view flags = text.substr(kFlags, 2);
  if (!IsHex(version) || version == "ff" || !IsHex(flags)) return {};
  // Version 0 ends here; later ones may go on after another dash.
  if (text.size() > kSize && (version == "00" || text[kSize] != '-')) return {};
  TraceParent parent;
  if (!TakeId(text.substr(kTraceId), parent.trace_id) || !TakeId(text.substr(kParentId), parent.parent_id)) return {};
  const char last = flags[1];
  parent.sampled = ((last <= '9' ? last - '0' : last - 'a' + 10) & 1) != 0;
  return parent;
}

std::optional<TraceParent> ReadTraceParent(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto [first, end] = metadata.equal_range(kKey);
  if (first == end || std::next(first) != end) return {};
  return ParseTraceParent({first->second.data(), first->second.size()});
}

}  // namespace widelane
