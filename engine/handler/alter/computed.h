// Finds what an ALTER without a copy would leave wrong among the things that the server computes from
// columns: the values of generated columns that are stored or indexed, CHECK constraints, and the choice of a
// row's partition. The server does not look for most of these itself. An ALTER that keeps the rows may
// therefore be done only if nothing that was computed from them changes.
#pragma once

class Alter_inplace_info;
struct TABLE;

namespace atoll::handler {

// Returns why the ALTER must rewrite the rows, or check each of them; nullptr: nothing that is computed from
// the rows changes. `altered`: its record[0] holds the default values of new columns.
const char *refuse_stale_computed(const TABLE *table, TABLE *altered, const Alter_inplace_info *info);

// Whether rows of one table are valid rows of the other, with the same values, so that EXCHANGE PARTITION may
// exchange them. The server has compared the columns' types and the keys before. It considers some columns
// equal that show different values, and does not look at constraints.
bool can_exchange_rows(const TABLE *table, const TABLE *other);

}  // namespace atoll::handler
