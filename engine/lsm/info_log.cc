#include "lsm/info_log.h"

#include <rocksdb/options.h>

#include "base/border/border.h"

namespace atoll::lsm {
namespace {

// Passes messages on to `target`, except for headers: RocksDB logs the dumps of options as headers.
class WithoutHeaders final : public rocksdb::Logger {
 public:
  explicit WithoutHeaders(std::shared_ptr<rocksdb::Logger> target)
      : rocksdb::Logger(rocksdb::InfoLogLevel::INFO_LEVEL), target_(std::move(target)) {}

  using rocksdb::Logger::Logv;
  void LogHeader(const char * /*format*/, va_list /*arguments*/) noexcept override {}
  void Logv(const char *format, va_list arguments) noexcept override {
    guarded_or_nothing([&] { target_->Logv(format, arguments); });
  }
  void Logv(const rocksdb::InfoLogLevel level, const char *format, va_list arguments) noexcept override {
    if (level == rocksdb::InfoLogLevel::HEADER_LEVEL || level < GetInfoLogLevel()) return;
    guarded_or_nothing([&] { target_->Logv(level, format, arguments); });
  }
  void Flush() noexcept override { target_->Flush(); }
  size_t GetLogFileSize() const noexcept override { return target_->GetLogFileSize(); }

 private:
  std::shared_ptr<rocksdb::Logger> target_;
};

}  // namespace

std::shared_ptr<rocksdb::Logger> make_info_log(const std::string &directory) {
  rocksdb::DBOptions options;
  options.max_log_file_size = 4 << 20;
  options.keep_log_file_num = 3;
  std::shared_ptr<rocksdb::Logger> target;
  if (!rocksdb::CreateLoggerFromOptions(directory, options, &target).ok()) return nullptr;
  return std::make_shared<WithoutHeaders>(std::move(target));
}

}  // namespace atoll::lsm
