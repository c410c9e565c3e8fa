// Builds indexes that an ALTER adds while other sessions write. The log holds the changed rows under their
// primary keys, but only the parts from which new entries are made. These are the value of an indexed column,
// or its prefix if only that is indexed, and the whole value of a column that an indexed expression uses.
// Other columns are not logged.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/row_codec.h"
#include "table/online/online_build.h"

namespace atoll::table {

class OnlineIndexBuild final : public OnlineBuild {
 public:
  // The layout of the table before the ALTER, with which other statements write rows meanwhile, and the
  // length of their records.
  struct Writers {
    const Layout &layout;
    size_t record_bytes;
  };
  // The other parameters are those of OnlineBuild.
  OnlineIndexBuild(Plan plan, Writers writers, Resources resources, BuildView *view);

 private:
  struct Cut {  // a BLOB column of a record of which the log holds only a prefix
    uint32_t record_offset;
    uint8_t length_bytes;
    uint32_t bytes_max;
  };

  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;

  void pack(const uint8_t *record, std::string *out) const;

  const size_t record_bytes_;
  const codec::RowCodec logged_;  // packs records of the writers for the log
  codec::RowCodec altered_row_;   // unpacks logged rows into records of the altered table
  std::vector<Cut> cuts_;
};

}  // namespace atoll::table
