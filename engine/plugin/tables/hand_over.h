// Tables that change databases without a copy of their table files.
//
//   on the giver      SELECT ATOLL_HAND_OVER('shop.orders')            returns the id of the hand-over
//   on the taker      SELECT ATOLL_TAKE('s3://bucket/giver', id, 'shop.orders')
//   or on the giver   SELECT ATOLL_TAKE_BACK(id)
//
// A slot in the giver's bucket decides who has the table (bridge/hand_over.h). Each side has the table under
// an internal name while that is open (catalog::kGivenPrefix, kTakenPrefix). A statement that was cut off is
// finished by settle_hand_overs().
#pragma once

#include <cstdint>

#include "base/status.h"

class Create_func;

namespace atoll::plugin {

Create_func *hand_over_function();
Create_func *take_function();
Create_func *take_back_function();

// Drops tables that were taken, gives those back that the giver has again, and finishes what a crash
// interrupted. Called each second by the background thread of a server that may write, with the number of the
// second; it looks every five seconds. Errors: those of the bucket; the next look tries again. Requests: none
// without such tables, else a GET for each.
Status settle_hand_overs(uint64_t second);

}  // namespace atoll::plugin
