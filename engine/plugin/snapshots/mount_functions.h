// SQL functions ATOLL_MOUNT('schema', 'as', 'when') and ATOLL_UNMOUNT('as') (action_function.h).
//
// A mounted schema is a directory beside those of the databases, with db.opt and the .par files of
// partitioned tables. No .frm is written, because the server finds the tables by discovery. The schema lasts
// until ATOLL_UNMOUNT(), DROP DATABASE or the end of the server.
#pragma once

#include <string>

#include "engine/engine.h"

class Create_func;

namespace atoll::plugin {

Create_func *mount_function();
Create_func *unmount_function();

// Removes the directories of schemas that an earlier process had mounted. Called at start, before any user
// connects.
void remove_former_mounts(engine::Mounts *mounts, const std::string &data_dir);

}  // namespace atoll::plugin
