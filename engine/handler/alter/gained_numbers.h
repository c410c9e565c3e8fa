// A stored column becomes AUTO_INCREMENT: MODIFY id INT NOT NULL AUTO_INCREMENT, as in the dumps of
// phpMyAdmin.
//
// The server's copy of the table gives a new number to each row that has 0 in the column, unless sql_mode has
// NO_AUTO_VALUE_ON_ZERO. An ALTER that changes only the definition leaves the rows as they are. So it is
// allowed only if no row has 0.
#pragma once

#include "handler/server.h"

#include "base/status.h"
#include "handler/layout.h"

class Alter_inplace_info;

namespace atoll::handler {

// Whether the change of the column is only that it becomes AUTO_INCREMENT.
bool becomes_auto_increment(const Field &field, const Column_definition &changed);

// The column of the table before the ALTER that becomes AUTO_INCREMENT; nullptr: none does.
const Field *gained_numbers(const TABLE *altered, const Alter_inplace_info *info);

// Sets *may_stay to whether no row has a zero or less in the column that becomes AUTO_INCREMENT, or rows may
// have a zero there. `table`, `layout`: before the ALTER or after it. `field`: the column in `table`. False
// also for partitions, and if no index begins with the column. Errors: as a read.
Status numbers_may_stay(const Layout &layout, TABLE *table, const Field *field, bool *may_stay);

}  // namespace atoll::handler
