// Where a record holds each column of a described table, and the codec of the table's rows for such records.
//
// A record is a row in memory. The server's records have a form of their own, which only an open TABLE knows.
// Code that has no TABLE uses records of the form own_record(). Packed rows and keys are the same bytes,
// whatever form of record they are made from.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "codec/row_codec.h"

namespace atoll::catalog {

// The fields are as in codec::Column. For a column that is NOT NULL, `null_offset` is -1.
struct ColumnPlace {
  uint32_t record_offset = 0;
  int32_t null_offset = -1;
  uint8_t null_mask = 0;
  std::string null_bytes = {};
};

struct RecordForm {
  std::vector<ColumnPlace> places;  // of all columns of the description, in their order
  uint32_t record_bytes = 0;        // the length of a record
};

// The form of records for code without a TABLE: the null bits first, then the columns in their order.
RecordForm own_record(const TableDescription &description);

// The column in records of that form. `id`: the column's id in the catalog; 0 for a virtual column.
codec::Column column_of(const ColumnDescription &column, const ColumnPlace &place, uint32_t id);

// The codec of a table's rows. *stored: for each column of the description its position in the codec; -1 for
// a virtual column. Errors: kInvalid: the definition has not as many stored columns as the description.
Status row_codec_of(const TableDef &def, const TableDescription &description, const RecordForm &form,
                    std::shared_ptr<const codec::RowCodec> *out, std::vector<int> *stored);

}  // namespace atoll::catalog
