// Goal:   a search is bounded by the range that the server gave for it, by the prefix of its keys and, in a
//         loose scan, by the end of the last range. Bounds that were given for another search do not count.
// Method: an index whose keys begin with the letter k.
#include "table/search_bounds.h"

#include <gtest/gtest.h>

namespace atoll::table {
namespace {

using Reach = Seek::Reach;

class SearchBoundsTest : public ::testing::Test {
 protected:
  SearchBoundsTest() {
    index_.start = "k";
    index_.end = "l";
  }
  // Returns the bounds of a search as "lower-upper".
  std::string bounds_of(const Seek &seek) {
    may_refuse_ = bounds_.begin(seek, index_);
    return bounds_.current().lower + "-" + bounds_.current().upper;
  }

  IndexLayout index_;
  SearchBounds bounds_;
  bool may_refuse_ = false;
};

TEST_F(SearchBoundsTest, a_range_is_for_one_search) {
  EXPECT_EQ(bounds_of({.key = "kc"}), "k-l");
  bounds_.give({"kb", "kd"});
  EXPECT_TRUE(bounds_.has_next());
  EXPECT_EQ(bounds_of({.key = "kc"}), "kb-kd");
  EXPECT_FALSE(bounds_.has_next());
  EXPECT_EQ(bounds_of({.key = "kc"}), "k-l");
}

TEST_F(SearchBoundsTest, a_range_of_a_search_that_does_not_come_is_taken_back) {
  bounds_.give({"kb", "kd"});
  bounds_.take_back();
  EXPECT_EQ(bounds_of({.key = "kc"}), "k-l");
  bounds_.give({"kb", "kd"});
  bounds_.restart();
  EXPECT_EQ(bounds_of({.key = "kc"}), "k-l");
}

TEST_F(SearchBoundsTest, a_prefix_narrows_a_range_and_never_widens_it) {
  EXPECT_EQ(bounds_of({.key = "kc", .prefix = "kc"}), "kc-kd");
  bounds_.give({"kb", "ke"});
  EXPECT_EQ(bounds_of({.key = "kc", .prefix = "kc"}), "kc-kd");
  bounds_.give({"kce", "kcg"});
  EXPECT_EQ(bounds_of({.key = "kc", .prefix = "kc"}), "kce-kcg");
}

TEST_F(SearchBoundsTest, an_exact_search_says_how_far_its_prefix_goes) {
  (void)bounds_of({.key = "kc", .prefix = "kc", .prefix_stays = true});
  EXPECT_EQ(bounds_.prefix(), "kc");
  EXPECT_TRUE(bounds_.prefix_stays());
  bounds_.forget_prefix();
  EXPECT_EQ(bounds_.prefix(), "");
  (void)bounds_of({.key = "kc"});
  EXPECT_FALSE(bounds_.prefix_stays());
}

TEST_F(SearchBoundsTest, a_loose_scan_stays_in_the_last_range) {
  bounds_.give({"kb", "kd"});
  EXPECT_EQ(bounds_of({.key = "kb"}), "kb-kd");
  EXPECT_EQ(bounds_of({.key = "kc", .reach = Reach::kAfterKey}), "k-kd");
  EXPECT_EQ(bounds_of({.key = "kd", .reach = Reach::kAfterKey}), "k-kd");
  EXPECT_EQ(bounds_of({.key = "ke", .reach = Reach::kAfterKey}), "k-l") << "it has left the range";
  bounds_.restart();
  EXPECT_EQ(bounds_of({.key = "kc", .reach = Reach::kAfterKey}), "k-l");
}

// A predicate may refuse rows only if the search has bounds that the server wants. Without them, a search
// whose rows are refused would continue to the end of the index.
TEST_F(SearchBoundsTest, rows_may_be_refused_where_the_search_has_an_end_that_the_server_wants) {
  (void)bounds_of({.key = "kc"});
  EXPECT_FALSE(may_refuse_);
  (void)bounds_of({.key = "kc", .reach = Reach::kAfterKey});
  EXPECT_FALSE(may_refuse_);
  (void)bounds_of({.key = "k", .reach = Reach::kWholeIndex});
  EXPECT_TRUE(may_refuse_);
  (void)bounds_of({.key = "kc", .prefix = "kc"});
  EXPECT_TRUE(may_refuse_);
  bounds_.give({"kb", "kd"});
  (void)bounds_of({.key = "kc"});
  EXPECT_TRUE(may_refuse_);
}

TEST_F(SearchBoundsTest, nothing_is_bound_before_the_first_search) {
  EXPECT_TRUE(bounds_.is_empty());
  bounds_.open(index_);
  EXPECT_FALSE(bounds_.is_empty());
  bounds_.clear();
  EXPECT_TRUE(bounds_.is_empty());
}

}  // namespace
}  // namespace atoll::table
