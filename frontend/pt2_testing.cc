#include "smelt/frontend/pt2_testing.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/check.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace {

void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::string Deflate(const std::string& data) {
  z_stream z = {};
  SMELT_CHECK(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, data.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  SMELT_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace

std::string WriteTestZip(const std::vector<TestZipEntry>& entries) {
  std::string out, directory;
  std::vector<size_t> places;
  for (const TestZipEntry& e : entries) {
    const std::string packed = e.deflate ? Deflate(e.data) : e.data;
    std::string common;  // the fields that both headers have
    Put(common, 20, 2);
    Put(common, 0, 2);
    Put(common, e.deflate ? 8 : 0, 2);
    Put(common, 0, 4);
    const uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(e.data.data()), static_cast<uInt>(e.data.size())));
    Put(common, e.declared_crc.value_or(crc), 4);
    Put(common, e.declared_compressed_size.value_or(static_cast<uint32_t>(packed.size())), 4);
    Put(common, e.declared_size.value_or(static_cast<uint32_t>(e.data.size())), 4);
    Put(common, e.name.size(), 2);
    Put(common, 0, 2);
    const bool listed_only = e.same_place_as.has_value() && *e.same_place_as < places.size();
    places.push_back(listed_only ? places[*e.same_place_as] : out.size());
    if (!listed_only) {
      Put(out, 0x04034b50, 4);
      out += common + e.name + packed;
    }
    Put(directory, 0x02014b50, 4);
    Put(directory, 20, 2);
    directory += common;
    Put(directory, 0, 2);  // comment
    Put(directory, 0, 2);  // disk
    Put(directory, 0, 2);  // internal attributes
    Put(directory, 0, 4);  // external attributes
    Put(directory, places.back(), 4);
    directory += e.name;
  }
  const size_t start = out.size();
  out += directory;
  Put(out, 0x06054b50, 4);
  Put(out, 0, 4);  // disks
  Put(out, entries.size(), 2);
  Put(out, entries.size(), 2);
  Put(out, directory.size(), 4);
  Put(out, start, 4);
  Put(out, 0, 2);  // comment
  return out;
}

TestArchive TestArchive::Load(const std::string& model) { return LoadPath(absl::StrCat("testdata/", model, ".pt2")); }

TestArchive TestArchive::LoadPath(const std::string& path) {
  auto zip = ZipArchive::Open(path);
  SMELT_CHECK(zip.ok()) << zip.status().ToString();
  TestArchive out;
  for (const std::string& name : (*zip)->names()) {
    auto data = (*zip)->Read(name, int64_t{1} << 30);
    SMELT_CHECK(data.ok()) << data.status().ToString();
    out.entries.push_back({.name = name, .data = *std::move(data)});
  }
  return out;
}

std::vector<std::string> TestArchive::AllPaths() {
  std::vector<std::string> out;
  for (const char* folder : {"testdata", "testdata/scenarios"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".pt2") out.push_back(file.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

TestZipEntry& TestArchive::Entry(absl::string_view ending) {
  for (TestZipEntry& e : entries) {
    if (absl::EndsWith(e.name, ending)) return e;
  }
  SMELT_CHECK(false) << "no entry " << std::string(ending);
  std::abort();
}

void TestArchive::Patch(const std::string& pointer, std::optional<absl::string_view> value, absl::string_view entry) {
  std::string& text = Entry(entry).data;
  nlohmann::json json = nlohmann::json::parse(text);
  const nlohmann::json::json_pointer at(pointer);
  SMELT_CHECK(json.contains(at) || value.has_value()) << "nothing at " << pointer;
  if (value.has_value()) {
    json[at] = nlohmann::json::parse(value->begin(), value->end());
  } else {
    json = json.patch({{{"op", "remove"}, {"path", pointer}}});
  }
  text = json.dump();
}

absl::StatusOr<Pt2Model> TestArchive::Read() const { return ReadPt2Bytes(WriteTestZip(entries)); }

absl::StatusOr<Pt2Model> ReadPt2Bytes(absl::string_view bytes) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = absl::StrCat(folder != nullptr ? folder : ".", "/archive.pt2");
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return ReadPt2(path);
}

}  // namespace smelt
