// SQL functions ATOLL_SNAPSHOT('name') and ATOLL_DROP_SNAPSHOT('name').
//
// Each runs once when its statement is executed, whatever number of rows it stands in, and never when the
// statement is prepared or explained. It needs RELOAD or SUPER, and is refused in views, triggers, stored
// functions and generated columns. Both return the name.
#pragma once

class Create_func;

namespace atoll::plugin {

Create_func *snapshot_function();
Create_func *drop_snapshot_function();

}  // namespace atoll::plugin
