// Implements codec::Collation by the server's CHARSET_INFO. See collation.h.
#include "handler/server.h"

#include "handler/server/collation.h"

#include <m_ctype.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace atoll::handler {
namespace {

// Whether the collation orders texts by their bytes, so that keys can hold the bytes as they are. True for
// the binary collations of 8-bit sets and of UTF-8, whose byte order is code point order.
bool is_byte_order(const CHARSET_INFO *cs) {
  if (!(cs->state & MY_CS_BINSORT)) return false;
  if (cs->mbmaxlen == 1) return true;
  const std::string_view name(cs->cs_name.str, cs->cs_name.length);
  return name == "utf8mb3" || name == "utf8mb4";
}

// Collations whose sort keys do not agree with the server's own comparison. An index on these sort keys would
// take different values for duplicates, or miss rows. Source: strings/ctype-big5.c, ctype-tis620.c, MariaDB
// 10.11.18; found by comparing sort keys with strnncollsp() over all collations.
enum class Quirk : uint8_t {
  kNone,
  kBig5Strokes,       // a sort key has only a character's number of strokes; comparison uses its code
  kStopsAtNul,        // comparison ends at the first zero byte of the transformed text
  kTrimsAndCompares,  // PAD SPACE trims both texts, then compares without padding (the Czech collations)
};

Quirk quirk_of(const CHARSET_INFO *cs) {
  const std::string_view name(cs->coll_name.str, cs->coll_name.length);
  if (name == "big5_chinese_ci" || name == "big5_chinese_nopad_ci") return Quirk::kBig5Strokes;
  if (name == "tis620_thai_nopad_ci") return Quirk::kStopsAtNul;
  if (name == "latin2_czech_cs" || name == "cp1250_czech_cs") return Quirk::kTrimsAndCompares;
  return Quirk::kNone;
}

constexpr uint kAllWeights = UINT_MAX;  // a text may have more weights than characters (German sharp s)

class ServerCollation final : public codec::Collation {
 public:
  explicit ServerCollation(const CHARSET_INFO *cs)
      : cs_(cs), byte_order_(is_byte_order(cs)), quirk_(quirk_of(cs)) {
    uchar space[8];
    const size_t space_length = cs->mbminlen;
    cs->fill(reinterpret_cast<char *>(space), space_length, ' ');
    uchar weights[64];
    const size_t length = byte_order_ ? (memcpy(weights, space, space_length), space_length)
                                      : cs->strnxfrm(weights, sizeof weights, 1, space, space_length, 0);
    space_weights_.assign(reinterpret_cast<char *>(weights), length);
    if (space_weights_.empty()) space_weights_.assign(1, '\0');
    // The levels of a UCA collation compare one after the other, each as a collation of its own.
    if (cs->uca != nullptr && !single_level()) {
      for (uint bit = 0; bit < MY_STRXFRM_NLEVELS; bit++) {
        if (!(cs->levels_for_order & (1 << bit))) continue;
        Level level{.flag = static_cast<uint>(MY_STRXFRM_LEVEL1) << bit, .space = {}};
        const size_t bytes = cs->strnxfrm(weights, sizeof weights, 1, space, space_length, level.flag);
        level.space.assign(reinterpret_cast<char *>(weights), bytes);
        levels_.push_back(std::move(level));
      }
    }
  }

  bool pad_space() const override { return !(cs_->state & MY_CS_NOPAD); }
  bool byte_order() const override { return byte_order_; }
  bool single_level() const override { return cs_->levels_for_order <= 1; }

  // Whether each character has exactly one weight. In UCA collations a character may have none or several.
  // For all other collations strxfrm_multiply says it.
  bool weight_per_character() const override {
    return byte_order_ || (cs_->uca == nullptr && cs_->strxfrm_multiply <= 1);
  }

  size_t weights_length_max(size_t text_bytes) const override {
    if (byte_order_) return text_bytes;
    // strnxfrmlen() assumes characters of mbmaxlen bytes, but this text may have only characters of one byte.
    return cs_->strnxfrmlen(text_bytes * cs_->mbmaxlen) + 64;
  }

  size_t weights(std::string_view text, uint8_t *out, size_t out_size) const override {
    if (byte_order_) {
      const size_t length = std::min(text.size(), out_size);
      memcpy(out, text.data(), length);
      return length;
    }
    if (quirk_ == Quirk::kBig5Strokes) return big5_weights(text, out, out_size);
    const size_t length = strnxfrm(text, kAllWeights, 0, out, out_size);
    return quirk_ == Quirk::kStopsAtNul ? strnlen(reinterpret_cast<const char *>(out), length) : length;
  }

  size_t weights_padded(std::string_view text, uint32_t characters, uint8_t *out,
                        size_t out_size) const override {
    if (quirk_ == Quirk::kTrimsAndCompares)
      return strnxfrm(text.substr(0, cs_->lengthsp(text.data(), text.size())), kAllWeights, 0, out, out_size);
    return strnxfrm(text, characters, MY_STRXFRM_PAD_WITH_SPACE, out, out_size);
  }

  size_t level_count() const override { return levels_.size(); }
  // Only the first level of a NO PAD collation is compared without padding.
  bool level_pads(size_t level) const override { return level > 0 || pad_space(); }
  std::string_view level_space(size_t level) const override { return levels_[level].space; }
  size_t level_weights(std::string_view text, size_t level, uint8_t *out, size_t out_size) const override {
    return strnxfrm(text, kAllWeights, levels_[level].flag, out, out_size);
  }

  std::string_view space_weights() const override { return space_weights_; }

  size_t prefix_bytes(std::string_view text, uint32_t characters) const override {
    if (cs_->mbmaxlen == 1) return std::min<size_t>(text.size(), characters);
    return std::min(text.size(), cs_->charpos(text.data(), text.data() + text.size(), characters));
  }

  int compare(std::string_view a, std::string_view b) const override {
    return cs_->strnncollsp(reinterpret_cast<const uchar *>(a.data()), a.size(),
                            reinterpret_cast<const uchar *>(b.data()), b.size());
  }

 private:
  struct Level {
    uint flag;          // MY_STRXFRM_LEVEL*, which selects this level
    std::string space;  // the weights of a space at this level
  };

  size_t strnxfrm(std::string_view text, uint weights_max, uint flags, uint8_t *out, size_t out_size) const {
    return cs_->strnxfrm(out, out_size, weights_max, reinterpret_cast<const uchar *>(text.data()),
                         text.size(), flags);
  }

  // Returns the weights by which strnncollsp() compares: for a character of two bytes its code, for a
  // character of one byte its sort order, which is below all those codes.
  size_t big5_weights(std::string_view text, uint8_t *out, size_t out_size) const {
    const uchar *at = reinterpret_cast<const uchar *>(text.data());
    const uchar *const end = at + text.size();
    size_t length = 0;
    while (at < end && length + 2 <= out_size) {
      const int bytes = cs_->charlen(at, end);
      if (bytes == 1) {
        out[length++] = cs_->sort_order[*at++];
        continue;
      }
      out[length++] = bytes == 2 ? at[0] : 0xFF;  // 0xFF: a byte that is no character
      out[length++] = bytes == 2 ? at[1] : at[0];
      at += bytes == 2 ? 2 : 1;
    }
    return length;
  }

  const CHARSET_INFO *cs_;
  bool byte_order_;
  Quirk quirk_;
  std::string space_weights_;
  std::vector<Level> levels_;
};

}  // namespace

const codec::Collation *collation_for(const charset_info_st *charset) {
  static Mutex mutex;
  static std::map<const charset_info_st *, std::unique_ptr<ServerCollation>> all;
  MutexLock guard(mutex);
  auto &entry = all[charset];
  if (!entry) entry = std::make_unique<ServerCollation>(charset);
  return entry.get();
}

}  // namespace atoll::handler
