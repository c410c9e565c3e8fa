// See whole_file.h.
#include "plugin/recovery/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atoll::plugin {

Status from_errno(int error, const std::string &what) {
  const std::string message = what + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) return Status(Code::kNoSpace, message);
  if (error == EROFS || error == EACCES || error == EPERM) return Status(Code::kReadOnly, message);
  return Status(Code::kInvalid, message);
}

Status write_whole_file(const std::string &path, const std::string &content, mode_t mode) {
  const std::string partial = path + "~";
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (file < 0) return from_errno(errno, partial);
  size_t written = 0;
  int error = 0;
  while (written < content.size() && error == 0) {
    const ssize_t step = ::write(file, content.data() + written, content.size() - written);
    if (step > 0)
      written += static_cast<size_t>(step);
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  ::close(file);
  if (error == 0 && ::rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return Status::Ok();
  ::unlink(partial.c_str());
  return from_errno(error, path);
}

}  // namespace atoll::plugin
