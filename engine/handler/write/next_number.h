// The numbers of an AUTO_INCREMENT column: the largest that the rows hold, and the one that follows a number.
#pragma once

#include "handler/server.h"

#include <cstdint>

#include "base/status.h"
#include "handler/layout.h"

namespace atoll::handler {

// Returns the number that a counter gives out after `number`. UINT64_MAX has no successor: it stands for a
// counter that has reached the end of BIGINT UNSIGNED, because the server takes it for an error.
constexpr uint64_t number_after(uint64_t number) { return number == UINT64_MAX ? number : number + 1; }

// The number in the AUTO_INCREMENT column `field` of the record that lies `offset` bytes behind the record of
// `field`. 0: the counter need not exceed the column's value, which is not above zero, or is a FLOAT or
// DOUBLE larger than all numbers that the column can count (Field::get_max_int_value()).
uint64_t number_in(Field *field, ptrdiff_t offset);

// Finds the largest number in the AUTO_INCREMENT column of `table`, also among the rows of open and prepared
// transactions; 0: number_in() is 0 for all rows. `layout`: the layout of `table`. Requires: the column is
// the first of its index. Errors: as a read.
Status largest_number(const Layout &layout, TABLE *table, uint64_t *largest);

// Sets *above to whether the first column of the index, a number, is above zero in all rows, also in those of
// open and prepared transactions. Errors: as a read.
Status is_above_zero(const Layout &layout, TABLE *table, uint index, bool *above);

}  // namespace atoll::handler
