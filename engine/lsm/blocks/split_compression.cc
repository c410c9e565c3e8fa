#include "lsm/blocks/split_compression.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "base/border/border.h"
#include "base/bytes.h"
#include "cloudfs/io_status.h"
#include "lsm/blocks/head_differences.h"
#include "lsm/blocks/split_block.h"

namespace atoll::lsm {
namespace {

using rocksdb::CompressionType;
using rocksdb::Compressor;
using rocksdb::Decompressor;
using rocksdb::Slice;

// Table FMT-S1 of docs/internals/formats-rows.md. The numbers are stored in every table file, so they must
// never change.
constexpr CompressionType kSplitType = rocksdb::kCustomCompression80;
constexpr CompressionType kDifferencesType = rocksdb::kCustomCompression81;

bool is_split(CompressionType type) { return type == kSplitType || type == kDifferencesType; }

// Out of this many blocks, one is compressed in all three forms, to find the smallest form.
constexpr uint32_t kBlocksPerTrial = 16;
// Only blocks of kBlockBytesMin to kBlockBytesMax bytes are split. In a smaller block, the headers of two
// streams cost more than splitting saves. A larger block is one large value: it has no rows to compare, and
// splitting would hold up to five more copies of it in memory.
constexpr size_t kBlockBytesMin = 1024;
constexpr size_t kBlockBytesMax = 256 * 1024;

// ---- Writing -------------------------------------------------------------------------------------

// The form in which a block is stored.
struct Form {
  // kSplitType or kDifferencesType; kNoCompression: not split, so RocksDB's own compressor gets the block.
  CompressionType type = rocksdb::kNoCompression;
  uint32_t head_bytes = 0;  // how many bytes of each value belong to the head
};

// The buffers that a SplitCompressor uses again for each block.
struct SplitArea : Compressor::WorkingArea {
  Compressor::ManagedWorkingArea inner;  // of RocksDB's own compressor
  BlockStreams streams;
  std::string differences;  // the heads as differences (head_differences.h)
  std::string compressed;   // buffer for one compressed stream
  // The compressed block in the format of table FMT-S1, in two parts.
  std::string front;           // everything before the tails, in the form that write_front() has written last
  std::string tails;           // the compressed tails, which are the same in all forms
  std::string smallest_front;  // in try_all(): the front of the smallest form so far

  size_t split_bytes() const { return front.size() + tails.size(); }
};

// Writes both parts to `output` and returns the number of bytes. Requires: `output` has room for both.
size_t put_together(std::string_view front, std::string_view tails, char *output) {
  std::memcpy(output, front.data(), front.size());
  std::memcpy(output + front.size(), tails.data(), tails.size());
  return front.size() + tails.size();
}

// Compresses the data blocks of one table file. When no memory can be allocated for that, a block is stored
// uncompressed.
class SplitCompressor final : public Compressor {
 public:
  explicit SplitCompressor(std::unique_ptr<Compressor> inner) : inner_(std::move(inner)) {}

  const char *Name() const override { return "AtollSplit"; }
  CompressionType GetPreferredCompressionType() const override {
    return inner_->GetPreferredCompressionType();
  }
  uint32_t GetRecommendedParallelThreads() const override { return inner_->GetRecommendedParallelThreads(); }
  std::unique_ptr<Compressor> Clone() const override {
    return std::make_unique<SplitCompressor>(inner_->Clone());
  }

  // When no memory can be allocated, returns no area. compress() then tries again to make one for each block.
  ManagedWorkingArea ObtainWorkingArea() override {
    return guarded([&] { return new_area(); }, [](const Status &) { return ManagedWorkingArea(); });
  }
  void ReleaseWorkingArea(WorkingArea *area) override { delete static_cast<SplitArea *>(area); }

  rocksdb::Status CompressBlock(Slice block, char *output, size_t *output_bytes, CompressionType *type,
                                ManagedWorkingArea *area) override {
    return guarded([&] { return compress(block, output, output_bytes, type, area); },
                   [&](const Status &) {
                     *type = rocksdb::kNoCompression;
                     *output_bytes = 0;
                     return rocksdb::Status::OK();
                   });
  }

 private:
  ManagedWorkingArea new_area() {
    auto area = std::make_unique<SplitArea>();
    area->inner = inner_->ObtainWorkingArea();
    return {area.release(), this};
  }

  rocksdb::Status compress(Slice block, char *output, size_t *output_bytes, CompressionType *type,
                           ManagedWorkingArea *area) {
    ManagedWorkingArea own;
    if (area == nullptr || area->owner() != this) {
      own = new_area();
      area = &own;
    }
    auto *split_area = static_cast<SplitArea *>(area->get());
    if (block.size() < kBlockBytesMin || block.size() > kBlockBytesMax) {
      return inner_->CompressBlock(block, output, output_bytes, type, &split_area->inner);
    }
    const uint32_t number = blocks_.fetch_add(1, std::memory_order_relaxed);
    if (number % kBlocksPerTrial == 0) return try_all(block, output, output_bytes, type, split_area);
    const Form form = form_.load(std::memory_order_relaxed);
    if (is_split(form.type) && split(block, form.head_bytes, split_area) &&
        write_front(block.size(), form, split_area) && split_area->split_bytes() <= *output_bytes) {
      *type = form.type;
      *output_bytes = put_together(split_area->front, split_area->tails, output);
      return rocksdb::Status::OK();
    }
    return inner_->CompressBlock(block, output, output_bytes, type, &split_area->inner);
  }

  // Compresses `block` in all forms and stores the smallest result. The next blocks are stored in that form.
  rocksdb::Status try_all(Slice block, char *output, size_t *output_bytes, CompressionType *type,
                          SplitArea *area) {
    const size_t room = *output_bytes;
    const rocksdb::Status whole = inner_->CompressBlock(block, output, output_bytes, type, &area->inner);
    if (!whole.ok()) return whole;
    size_t smallest_bytes = *type == rocksdb::kNoCompression ? room : *output_bytes;
    Form smallest;
    const uint32_t head_bytes = common_head_bytes(block.ToStringView());
    if (split(block, head_bytes, area)) {
      for (const CompressionType split_type : {kSplitType, kDifferencesType}) {
        const Form form{split_type, head_bytes};
        if (!write_front(block.size(), form, area) || area->split_bytes() >= smallest_bytes) continue;
        smallest = form;
        smallest_bytes = area->split_bytes();
        area->smallest_front.swap(area->front);
      }
    }
    form_.store(smallest, std::memory_order_relaxed);
    if (!is_split(smallest.type)) return whole;
    *type = smallest.type;
    *output_bytes = put_together(area->smallest_front, area->tails, output);
    return whole;
  }

  // Splits `block` into area->streams and compresses the tails. Returns false if split_block() refuses the
  // block or the tails cannot be compressed.
  bool split(Slice block, uint32_t head_bytes, SplitArea *area) {
    area->tails.clear();
    return split_block(block.ToStringView(), head_bytes, &area->streams) &&
           append_stream(area->streams.tails, area, &area->tails);
  }

  // Writes area->front in the given form, for the block of `block_bytes` bytes that split() has split.
  // Returns false if the block cannot have this form.
  bool write_front(size_t block_bytes, Form form, SplitArea *area) {
    const BlockStreams &streams = area->streams;
    if (form.type == kDifferencesType &&
        !subtract_heads(streams.heads, streams.entries_bytes, form.head_bytes, &area->differences)) {
      return false;
    }
    area->front.clear();
    append_varint(&area->front, block_bytes);
    append_varint(&area->front, form.head_bytes);
    append_varint(&area->front, streams.restart_interval);
    return append_stream(form.type == kDifferencesType ? area->differences : streams.heads, area,
                         &area->front);
  }

  bool append_stream(std::string_view stream, SplitArea *area, std::string *to) {
    CompressionType type = rocksdb::kNoCompression;
    area->compressed.resize(stream.size());
    size_t length = stream.size();
    const rocksdb::Status status =
        inner_->CompressBlock(stream, area->compressed.data(), &length, &type, &area->inner);
    if (!status.ok()) return false;
    const std::string_view stored =
        type == rocksdb::kNoCompression ? stream : std::string_view(area->compressed).substr(0, length);
    to->push_back(static_cast<char>(type));
    append_varint(to, stored.size());
    to->append(stored);
    return true;
  }

  const std::unique_ptr<Compressor> inner_;
  std::atomic<uint32_t> blocks_{0};  // blocks so far whose size allows splitting
  std::atomic<Form> form_{Form{}};   // the smallest form of the last block that was tried in all forms
};

// The compressor of one table file. RocksDB asks it for a compressor for each type of block: data blocks get
// a SplitCompressor; index and other blocks are compressed by RocksDB's own compressor.
class FileCompressor final : public rocksdb::CompressorWrapper {
 public:
  using CompressorWrapper::CompressorWrapper;

  const char *Name() const override { return "AtollFile"; }
  std::unique_ptr<Compressor> Clone() const override {
    return std::make_unique<FileCompressor>(wrapped_->Clone());
  }
  // The wrapped compressor's decompressor cannot read split blocks. So this function returns none, and
  // RocksDB asks the compression manager for a decompressor.
  std::shared_ptr<Decompressor> GetOptimizedDecompressor() const override { return nullptr; }
  std::unique_ptr<Compressor> MaybeCloneSpecialized(rocksdb::CacheEntryRole block_type,
                                                    DictConfigArgs && /*none is used*/) const override {
    if (block_type != rocksdb::CacheEntryRole::kDataBlock) return nullptr;
    return guarded(
        [&]() -> std::unique_ptr<Compressor> { return std::make_unique<SplitCompressor>(wrapped_->Clone()); },
        [](const Status &) { return std::unique_ptr<Compressor>(); });
  }
};

// ---- Reading -------------------------------------------------------------------------------------

rocksdb::Status damaged(const char *what) {
  return rocksdb::Status::Corruption("a block in two streams", what);
}

// One compressed stream as it is stored. `type`: how it is compressed.
struct StoredStream {
  CompressionType type = rocksdb::kNoCompression;
  Slice bytes;
};

// The fields of a stored block after the field with its size (table FMT-S1).
struct StoredBlock {
  uint64_t head_bytes = 0;
  uint64_t restart_interval = 0;
  StoredStream heads;
  StoredStream tails;
};

bool take_varint(Slice *from, uint64_t *value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(from->data());
  const size_t length = load_varint(bytes, bytes + from->size(), value);
  from->remove_prefix(length);
  return length != 0;
}

bool take_stream(Slice *from, StoredStream *stream) {
  if (from->empty()) return false;
  stream->type = static_cast<CompressionType>((*from)[0]);
  from->remove_prefix(1);
  uint64_t length;
  if (!take_varint(from, &length) || length > from->size()) return false;
  stream->bytes = {from->data(), length};
  from->remove_prefix(length);
  return true;
}

bool take_block(Slice from, StoredBlock *block) {
  return take_varint(&from, &block->head_bytes) && take_varint(&from, &block->restart_interval) &&
         take_stream(&from, &block->heads) && take_stream(&from, &block->tails) && from.empty() &&
         block->head_bytes <= UINT32_MAX && block->restart_interval <= UINT32_MAX;
}

class SplitDecompressor final : public rocksdb::DecompressorWrapper {
 public:
  using DecompressorWrapper::DecompressorWrapper;

  const char *Name() const override { return "AtollSplit"; }

  rocksdb::Status ExtractUncompressedSize(Args &args) override {
    if (!is_split(args.compression_type)) return wrapped_->ExtractUncompressedSize(args);
    if (!take_varint(&args.compressed_data, &args.uncompressed_size)) return damaged("its size is cut off");
    if (args.uncompressed_size > kBlockBytesMax) return damaged("its size is none of a split block");
    return rocksdb::Status::OK();
  }

  // Compactions call this too. If no memory can be allocated, the status is retryable, so RocksDB repeats the
  // compaction. After a status that is not retryable, RocksDB accepts no writes until it is opened again.
  rocksdb::Status DecompressBlock(const Args &args, char *output) override {
    return guarded([&] { return decompress(args, output); }, cloudfs::io_status_of_exception);
  }

 private:
  rocksdb::Status decompress(const Args &args, char *output) {
    if (!is_split(args.compression_type)) return wrapped_->DecompressBlock(args, output);
    StoredBlock block;
    if (!take_block(args.compressed_data, &block)) return damaged("its lengths contradict each other");
    Args heads;
    Args tails;
    if (rocksdb::Status status = prepare(args, block.heads, &heads); !status.ok()) return status;
    if (rocksdb::Status status = prepare(args, block.tails, &tails); !status.ok()) return status;
    if (heads.uncompressed_size > args.uncompressed_size ||
        tails.uncompressed_size > args.uncompressed_size - heads.uncompressed_size) {
      return damaged("its streams are longer than the block");
    }
    const auto heads_bytes = std::make_unique_for_overwrite<char[]>(heads.uncompressed_size);
    if (rocksdb::Status status = unpack(heads, heads_bytes.get()); !status.ok()) return status;
    const std::string_view head_stream(heads_bytes.get(), heads.uncompressed_size);
    const auto interval = static_cast<uint32_t>(block.restart_interval);
    size_t position;
    if (!tails_position(head_stream, interval, tails.uncompressed_size, args.uncompressed_size, &position)) {
      return damaged("its streams do not add up to the block");
    }
    if (args.compression_type == kDifferencesType &&
        !add_heads(heads_bytes.get(), position, static_cast<uint32_t>(block.head_bytes))) {
      return damaged("its keys share more than there is");
    }
    if (rocksdb::Status status = unpack(tails, output + position); !status.ok()) return status;
    if (!join_block(head_stream, static_cast<uint32_t>(block.head_bytes), interval, tails.uncompressed_size,
                    output, args.uncompressed_size)) {
      return damaged("its entries do not fill it");
    }
    return rocksdb::Status::OK();
  }

  rocksdb::Status prepare(const Args &block, const StoredStream &stream, Args *args) {
    *args = block;
    args->compression_type = stream.type;
    args->compressed_data = stream.bytes;
    args->uncompressed_size = stream.bytes.size();
    if (stream.type == rocksdb::kNoCompression) return rocksdb::Status::OK();
    return wrapped_->ExtractUncompressedSize(*args);
  }

  rocksdb::Status unpack(const Args &args, char *output) {
    if (args.compression_type != rocksdb::kNoCompression) return wrapped_->DecompressBlock(args, output);
    std::memcpy(output, args.compressed_data.data(), args.compressed_data.size());
    return rocksdb::Status::OK();
  }
};

// ---- The manager ---------------------------------------------------------------------------------

class SplitCompressionManager final : public rocksdb::CompressionManagerWrapper {
 public:
  SplitCompressionManager()
      : CompressionManagerWrapper(rocksdb::GetBuiltinV2CompressionManager()),
        decompressor_(std::make_shared<SplitDecompressor>(wrapped_->GetDecompressor())) {}

  const char *Name() const override { return "AtollSplitManager"; }
  // RocksDB stores this name in every table file, with the compression types of the file's blocks. RocksDB
  // does not open a file with a type for which GetDecompressorForTypes() has no decompressor.
  const char *CompatibilityName() const override { return "AtollSplit1"; }
  std::string CompressionTypeToString(CompressionType type) const override {
    return is_split(type) ? "Split" : wrapped_->CompressionTypeToString(type);
  }

  std::unique_ptr<Compressor> GetCompressorForSST(const rocksdb::FilterBuildingContext &context,
                                                  const rocksdb::CompressionOptions &options,
                                                  CompressionType preferred) override {
    return for_file(wrapped_->GetCompressorForSST(context, options, preferred), preferred);
  }

  std::shared_ptr<Decompressor> GetDecompressor() override { return decompressor_; }
  std::shared_ptr<Decompressor> GetDecompressorOptimizeFor(CompressionType /*type*/) override {
    return decompressor_;
  }
  std::shared_ptr<Decompressor> GetDecompressorForTypes(const CompressionType *begin,
                                                        const CompressionType *end) override {
    const auto is_unknown = [](CompressionType type) {
      return type >= rocksdb::kFirstCustomCompression && type <= rocksdb::kLastCustomCompression &&
             !is_split(type);
    };
    return std::any_of(begin, end, is_unknown) ? nullptr : decompressor_;
  }

 private:
  static std::unique_ptr<Compressor> for_file(std::unique_ptr<Compressor> inner, CompressionType type) {
    const bool has_entropy_coder = type == rocksdb::kZSTD || type == rocksdb::kZlibCompression;
    if (!inner || !has_entropy_coder) return inner;
    // make_unique() allocates memory before it moves `inner`. So after an exception `inner` is still there,
    // and the file is compressed without splitting.
    return guarded(
        [&]() -> std::unique_ptr<Compressor> { return std::make_unique<FileCompressor>(std::move(inner)); },
        [&](const Status &) { return std::move(inner); });
  }

  const std::shared_ptr<Decompressor> decompressor_;
};

}  // namespace

const std::shared_ptr<rocksdb::CompressionManager> &split_compression_manager() {
  static const std::shared_ptr<rocksdb::CompressionManager> manager =
      std::make_shared<SplitCompressionManager>();
  return manager;
}

}  // namespace atoll::lsm
