// See gtid_list.h.
#include "plugin/reading/gtid_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace atoll::plugin {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Reads a decimal number from the beginning of *text, and removes it there.
template <typename Number>
bool take_number(std::string_view *text, Number *number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool take_dash(std::string_view *text) {
  if (!text->starts_with('-')) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

std::string gtid_text(const std::vector<lsm::Gtid> &gtids) {
  std::string text;
  for (const lsm::Gtid &gtid : gtids)
    text += (text.empty() ? "" : ",") + std::to_string(gtid.domain) + "-" + std::to_string(gtid.server) +
            "-" + std::to_string(gtid.sequence);
  return text;
}

std::optional<std::vector<lsm::Gtid>> parse_gtids(std::string_view text) {
  std::vector<lsm::Gtid> gtids;
  if (trimmed(text).empty()) return gtids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view part = trimmed(text.substr(begin, end - begin));
    lsm::Gtid gtid;
    if (!take_number(&part, &gtid.domain) || !take_dash(&part) || !take_number(&part, &gtid.server) ||
        !take_dash(&part) || !take_number(&part, &gtid.sequence) || !part.empty())
      return std::nullopt;
    gtids.push_back(gtid);
    begin = end + 1;
  }
  return gtids;
}

bool covers(const std::vector<lsm::Gtid> &have, const std::vector<lsm::Gtid> &wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const lsm::Gtid &each) {
    return std::any_of(have.begin(), have.end(), [&](const lsm::Gtid &last) {
      return last.domain == each.domain && last.sequence >= each.sequence;
    });
  });
}

}  // namespace atoll::plugin
