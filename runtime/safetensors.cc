#include "smelt/runtime/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/json_text.h"

namespace smelt {
namespace {

constexpr struct {
  const char* name;
  DType dtype;
} kDTypes[] = {{"BOOL", DType::kBool},
               {"U8", DType::kUInt8},
               {"I8", DType::kInt8},
               {"I16", DType::kInt16},
               {"I32", DType::kInt32},
               {"I64", DType::kInt64},
               {"F16", DType::kFloat16},
               {"BF16", DType::kBFloat16},
               {"F32", DType::kFloat32},
               {"F64", DType::kFloat64},
               {"C64", DType::kComplex64},
               {"C128", DType::kComplex128},
               {"F8_E4M3", DType::kFloat8E4M3FN},
               {"F8_E5M2", DType::kFloat8E5M2}};

absl::Status Write(const std::string& path, const std::map<std::string, Tensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t end = 0;
  for (const auto& [name, t] : tensors) {
    const char* dtype = "U8";
    for (const auto& d : kDTypes) {
      if (d.dtype == t.dtype()) dtype = d.name;
    }
    const int64_t begin = end;
    end += t.NumElements() * ItemSize(t.dtype());
    header[name] = {{"dtype", dtype},
                    {"shape", std::vector<int64_t>(t.sizes().begin(), t.sizes().end())},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = JsonText(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  SMELT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  SMELT_RETURN_IF_ERROR(file.Append(absl::string_view(reinterpret_cast<const char*>(&size), 8)));
  SMELT_RETURN_IF_ERROR(file.Append(text));
  // One tensor at a time: results may be most of the memory.
  for (const auto& [name, t] : tensors) {
    const Tensor dense = t.geometry().IsContiguous() ? t : t.Clone();
    const int64_t bytes = dense.NumElements() * ItemSize(dense.dtype());
    SMELT_RETURN_IF_ERROR(
        file.Append(absl::string_view(static_cast<const char*>(dense.data()), static_cast<size_t>(bytes))));
  }
  return file.Commit();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Read(const std::string& path) {
  auto file = std::make_unique<SafetensorsFile>();
  SMELT_RETURN_IF_ERROR(CatchOutOfMemory([&] { return file->Parse(path); }));
  return file;
}

absl::Status SafetensorsFile::Parse(const std::string& path) {
  path_ = path;
  auto read = ReadFile(path);
  // A folder or a pipe is a file of the wrong kind, as one with other contents is.
  if (absl::IsInvalidArgument(read.status())) return absl::DataLossError(read.status().message());
  SMELT_RETURN_IF_ERROR(read.status());
  data_ = *std::move(read);
  const std::string& data = data_;
  auto bad = [&](absl::string_view what) { return absl::DataLossError(absl::StrCat(path, ": ", what)); };
  if (absl::StartsWith(data, "\x93NUMPY"))
    return bad("a .npy file of NumPy, not a safetensors file (safetensors.numpy.save_file writes one)");
  if (absl::StartsWith(data, "PK\x03\x04"))
    return bad("a zip archive such as .npz or .pt, not a safetensors file (safetensors.torch.save_file writes one)");
  if (absl::StartsWith(data, "SMELTBND")) return bad("a bundle (.smb), not a safetensors file");
  if (data.size() < 8) return bad("not a safetensors file: shorter than its header's length");
  uint64_t header = 0;
  std::memcpy(&header, data.data(), 8);
  if (header > data.size() - 8)
    return bad(absl::StrCat("not a safetensors file, or cut off: its header would have ", header, " bytes, but only ",
                            data.size() - 8, " follow"));
  SMELT_ASSIGN_OR_RETURN(nlohmann::json json,
                         ParseJsonText(absl::string_view(data).substr(8, header), absl::StrCat(path, ": header")));
  if (!json.is_object()) return bad("the header is no JSON object");
  const uint64_t body = data.size() - 8 - header;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (it.key() == "__metadata__") {
      if (!it->is_object()) return bad("__metadata__ is no object");
      for (auto m = it->begin(); m != it->end(); ++m) {
        if (!m->is_string()) return bad(absl::StrCat("__metadata__ \"", m.key(), "\" is no string"));
        metadata_[m.key()] = m->get<std::string>();
      }
      continue;
    }
    auto entry_bad = [&](absl::string_view what) { return bad(absl::StrCat("entry \"", it.key(), "\": ", what)); };
    if (!it->is_object() || !it->contains("dtype") || !(*it)["dtype"].is_string() || !it->contains("shape") ||
        !(*it)["shape"].is_array() || !it->contains("data_offsets") || !(*it)["data_offsets"].is_array() ||
        (*it)["data_offsets"].size() != 2) {
      return entry_bad("dtype, shape and two data_offsets expected");
    }
    Entry e;
    e.dtype = (*it)["dtype"].get<std::string>();
    for (const auto& d : (*it)["shape"]) {
      if (!d.is_number_unsigned() || d.get<uint64_t>() > (uint64_t{1} << 48)) return entry_bad("a bad shape");
      e.shape.push_back(d.get<int64_t>());
    }
    const auto& offsets = (*it)["data_offsets"];
    if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) return entry_bad("bad data_offsets");
    const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > body) return entry_bad(absl::StrCat("bytes ", begin, " to ", end, " of ", body));
    e.bytes = absl::string_view(data).substr(8 + header + begin, end - begin);
    entries_[it.key()] = std::move(e);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SafetensorsFile::ReadTensor(absl::string_view name) const {
  auto it = entries_.find(std::string(name));
  if (it == entries_.end()) return absl::InvalidArgumentError(absl::StrCat(path_, ": no tensor \"", name, "\""));
  std::optional<DType> dtype;
  for (const auto& d : kDTypes) {
    if (it->second.dtype == d.name) dtype = d.dtype;
  }
  if (!dtype) return absl::UnimplementedError(absl::StrCat(path_, ": \"", name, "\" has dtype ", it->second.dtype));
  int64_t bytes = ItemSize(*dtype), largest_stride = bytes;
  for (int64_t d : it->second.shape) {
    if (__builtin_mul_overflow(bytes, d, &bytes) ||
        __builtin_mul_overflow(largest_stride, std::max<int64_t>(d, 1), &largest_stride))
      return absl::DataLossError(absl::StrCat(path_, ": \"", name, "\" has an absurd shape"));
  }
  if (bytes != static_cast<int64_t>(it->second.bytes.size())) {
    return absl::DataLossError(
        absl::StrCat(path_, ": \"", name, "\" has ", it->second.bytes.size(), " bytes, its shape needs ", bytes));
  }
  return CatchOutOfMemory([&]() -> absl::StatusOr<Tensor> {
    Tensor t = Tensor::Empty(*dtype, it->second.shape);
    if (bytes > 0) std::memcpy(t.data(), it->second.bytes.data(), bytes);
    return t;
  });
}

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  return CatchOutOfMemory([&] { return Write(path, tensors, metadata); });
}

}  // namespace smelt
