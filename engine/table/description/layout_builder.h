// Makes a table's layout from its description in the catalog, without an open TABLE.
//
// The layout depends on the form of the records that its user has (catalog/description/record_form.h): the
// server's form if the user has an open TABLE, own_record() otherwise. The bytes of rows and keys are the
// same.
#pragma once

#include <memory>

#include "base/status.h"
#include "catalog/description/record_form.h"
#include "table/layout.h"

namespace atoll::table {

// The collations of the server, by their descriptions. The handler implements it.
class Collations {
 public:
  virtual ~Collations() = default;
  // nullptr: there is no collation with this number and this name. The result lives as long as the process.
  virtual const codec::Collation *find(const catalog::Charset &charset) const = 0;
};

// How one part of a key compares. `source`: the column in the records of the caller. *out: the part. Errors:
// kInvalid: the server does not have the column's collation.
Status key_part_of(const catalog::ColumnDescription &column, const catalog::KeyPartDescription &part,
                   codec::Column source, const Collations &collations, codec::KeyPart *out);

// Makes the layout of the table that `def` defines. `description`: its columns and keys, which are those of
// `def` if `def` has a description. Errors: kInvalid: `def` and `description` do not agree, or the server
// does not have a collation; kCorruption: the description is impossible.
Status build_layout(catalog::TablePtr def, const catalog::TableDescription &description,
                    const catalog::RecordForm &form, const Collations &collations, lsm::Family *family,
                    std::shared_ptr<const Layout> *out);

}  // namespace atoll::table
