// Indexes that an ALTER adds while others write. The log of changes has the changed rows under their primary
// keys. It keeps only what the new entries are made from: the value of an indexed column, the prefix of one
// that is indexed by a prefix, the whole value of one that an indexed expression names, and nothing of all
// others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/row_codec.h"
#include "table/online/online_build.h"

namespace atoll::table {

class OnlineIndexBuild final : public OnlineBuild {
 public:
  // How other statements write rows meanwhile, in records of `record_bytes`.
  struct Writers {
    const Layout &layout;
    size_t record_bytes;
  };
  // For the rest see OnlineBuild.
  OnlineIndexBuild(Plan plan, Writers writers, Resources resources, BuildView *view);

 private:
  struct Cut {  // of a BLOB column in a record
    uint32_t record_offset;
    uint8_t length_bytes;
    uint32_t bytes_max;
  };

  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;

  void pack(const uint8_t *record, std::string *out) const;

  const size_t record_bytes_;
  const codec::RowCodec logged_;  // from records of the writers
  codec::RowCodec altered_row_;   // to records of the altered table
  std::vector<Cut> cuts_;
};

}  // namespace atoll::table
