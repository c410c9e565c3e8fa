// See run_file.h.

#include "lsm/load/run_file.h"

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/types_util.h>

#include <utility>

#include "lsm/raw.h"

namespace atoll::lsm {
// ---- Writing a run file --------------------------------------------------------------------------

RunFileWriter::RunFileWriter(const rocksdb::Options &options, std::string path)
    : file_(std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(options), options, nullptr,
                                                     /*invalidate_page_cache=*/false)),
      path_(std::move(path)) {}

RunFileWriter::~RunFileWriter() = default;

Status RunFileWriter::add(std::string_view key, std::string_view value, bool removed) {
  if (!opened_) ATOLL_RETURN_IF_ERROR(from_rocksdb(file_->Open(path_)));
  opened_ = true;
  return from_rocksdb(removed ? file_->Delete(key) : file_->Put(key, value));
}

Status RunFileWriter::finish() { return from_rocksdb(file_->Finish()); }

// ---- Reading a run file --------------------------------------------------------------------------

RunFileCursor::RunFileCursor(std::unique_ptr<rocksdb::Iterator> iterator) : iterator_(std::move(iterator)) {}
RunFileCursor::~RunFileCursor() = default;

std::string_view RunFileCursor::value() const { return iterator_->value().ToStringView(); }

Status RunFileCursor::status() const {
  // The iterator stands on an entry, but parse() did not understand its key.
  if (iterator_->Valid() && !valid_)
    return Status(Code::kCorruption, "a key in a file of a large transaction is damaged");
  return from_rocksdb(iterator_->status());
}

void RunFileCursor::parse() {
  rocksdb::ParsedEntryInfo entry;
  valid_ =
      iterator_->Valid() && rocksdb::ParseEntry(iterator_->key(), rocksdb::BytewiseComparator(), &entry).ok();
  if (!valid_) return;
  key_ = entry.user_key.ToStringView();
  removed_ = entry.type == rocksdb::kEntryDelete;
}

void RunFileCursor::seek(std::string_view key) {
  (void)rocksdb::GetInternalKeyForSeek(key, rocksdb::BytewiseComparator(), &target_);
  iterator_->Seek(target_);
  parse();
}

void RunFileCursor::seek_last(std::string_view key) {
  (void)rocksdb::GetInternalKeyForSeekForPrev(key, rocksdb::BytewiseComparator(), &target_);
  iterator_->SeekForPrev(target_);
  parse();
}

void RunFileCursor::seek_before(std::string_view key) {
  seek_last(key);
  if (valid_ && key_ == key) prev();
}

void RunFileCursor::to_first() {
  iterator_->SeekToFirst();
  parse();
}

void RunFileCursor::to_last() {
  iterator_->SeekToLast();
  parse();
}

void RunFileCursor::next() {
  iterator_->Next();
  parse();
}

void RunFileCursor::prev() {
  iterator_->Prev();
  parse();
}

RunFile::RunFile(const rocksdb::Options &options)
    : reader_(std::make_unique<rocksdb::SstFileReader>(options)) {}
RunFile::~RunFile() = default;

Status RunFile::open(const rocksdb::Options &options, const std::string &path,
                     std::unique_ptr<RunFile> *out) {
  std::unique_ptr<RunFile> file(new RunFile(options));
  ATOLL_RETURN_IF_ERROR(from_rocksdb(file->reader_->Open(path)).with("reading the run " + path));
  *out = std::move(file);
  return Status::Ok();
}

std::unique_ptr<RunFileCursor> RunFile::cursor() const {
  return std::make_unique<RunFileCursor>(reader_->NewTableIterator());
}

// ---- Ingesting run files -------------------------------------------------------------------------

struct Ingestion::Handle {
  rocksdb::DB *db = nullptr;
  std::unique_ptr<rocksdb::FileIngestionHandle> files;
};

Ingestion::Ingestion() = default;
Ingestion::~Ingestion() = default;

Status Ingestion::prepare(Rows *rows, Side side, const std::vector<FamilyFiles> &files, bool may_copy) {
  std::vector<rocksdb::IngestExternalFileArg> arguments;
  for (const FamilyFiles &family : files) {
    rocksdb::IngestExternalFileArg argument;
    argument.column_family = family.family;
    argument.external_files = family.paths;
    argument.options.link_files = true;  // the file system hands the linked file to the store
    argument.options.failed_move_fall_back_to_copy = may_copy;
    argument.options.write_global_seqno = false;
    argument.options.fill_cache = false;
    arguments.push_back(std::move(argument));
  }
  auto handle = std::make_unique<Handle>();
  handle->db = Raw::below(rows, side);
  ATOLL_RETURN_IF_ERROR(from_rocksdb(handle->db->PrepareFileIngestion(arguments, &handle->files)));
  handle_ = std::move(handle);
  return Status::Ok();
}

Status Ingestion::commit() {
  // While a snapshot exists, RocksDB gives the ingested files a new sequence number. Without a snapshot, it
  // sometimes gives them the number 0. Such rows are visible to every snapshot once RocksDB has written the
  // MANIFEST. So a snapshot that another transaction takes while RocksDB writes it would first not show the
  // rows, and then show them. Therefore this function holds a snapshot.
  const rocksdb::ManagedSnapshot before(handle_->db);
  const Status status = from_rocksdb(handle_->db->CommitFileIngestionHandle(std::move(handle_->files)));
  handle_.reset();
  return status.with("taking in the files of a transaction");
}

}  // namespace atoll::lsm
