#include "smelt/tools/tensor_files.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/zip_archive.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/tools/npy.h"
#include "smelt/tools/plain_text.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr char kTensorFiles[] =
    "a safetensors file (safetensors.torch.save_file writes one), .npz, .npy or a folder of .npy files expected";
constexpr int64_t kMostBytes = int64_t{1} << 40;  // of an entry of an .npz

absl::StatusOr<NamedTensors> ReadFolder(const std::string& path) {
  NamedTensors out{.path = path, .tensors = {}};
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".npy") continue;
    const std::string file = it->path().string();
    SMELT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file));
    out.tensors.emplace(it->path().stem().string(), ParseNpy(bytes, file));
  }
  if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  if (out.tensors.empty()) return absl::NotFoundError(absl::StrCat(path, ": no .npy file in this folder"));
  return out;
}

absl::StatusOr<NamedTensors> ReadNpz(const std::string& path) {
  NamedTensors out{.path = path, .tensors = {}};
  SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<ZipArchive> zip, ZipArchive::Open(path));
  for (const std::string& entry : zip->names()) {
    absl::string_view name = entry;
    const std::string where = absl::StrCat(path, ": ", entry);
    if (!absl::ConsumeSuffix(&name, ".npy")) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a zip archive with the entry ", Printable(entry),
                                                     ", so no .npz of NumPy; ", kTensorFiles));
    }
    SMELT_ASSIGN_OR_RETURN(const std::string bytes, zip->Read(entry, kMostBytes));
    out.tensors.emplace(name, ParseNpy(bytes, where));
  }
  return out;
}

// The first bytes of a file; "" of one that cannot be read twice, such as a pipe.
std::string Beginning(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  const absl::StatusOr<MappedFile> file = MapFile(path);
  return file.ok() ? std::string(file->text().substr(0, 8)) : "";
}

// A name that a file in a folder can have, whatever the bundle calls it. Letters of other alphabets stay.
std::string FileName(absl::string_view name) {
  constexpr size_t kMostBytes = 200;
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  size_t end = std::min(name.size(), kMostBytes);
  while (end < name.size() && end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80)
    --end;  // in a character
  std::string out;
  for (char c : name.substr(0, end)) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    out.push_back(plain || !is_ascii(c) ? c : '_');
  }
  if (out.empty() || out[0] == '.') out.insert(0, "_");
  return out;
}

template <typename T>
Tensor OneElement(DType dtype, T value) {
  Tensor out = Tensor::Empty(dtype, {});
  *out.data_as<T>() = value;
  return out;
}

// A tensor that stands for the value in a .npy; none for a text and for None.
std::optional<Tensor> AsTensor(const Datum& v) {
  if (v.IsTensor()) return v.tensor();
  if (v.IsInt()) return OneElement<int64_t>(DType::kInt64, v.as_int());
  if (v.IsBool()) return OneElement<bool>(DType::kBool, v.as_bool());
  if (v.IsFloat()) return OneElement<double>(DType::kFloat64, v.as_float());
  if (v.IsComplex()) return OneElement<std::complex<double>>(DType::kComplex128, v.as_complex());
  return std::nullopt;
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  SMELT_ASSIGN_OR_RETURN(const std::string bytes, Annotate(EncodeNpy(tensor), path));
  return WriteFileAtomically(path, absl::string_view(bytes));
}

absl::StatusOr<OtherResults> WriteFolder(const std::string& path, const std::vector<NamedDatum>& results) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  OtherResults others;
  std::set<std::string> taken;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::optional<Tensor> tensor = AsTensor(results[i].value);
    if (!tensor) {
      others.left_out.push_back(i);
      continue;
    }
    const std::string first = FileName(results[i].name);
    std::string name = first;
    for (int n = 1; !taken.insert(name).second; ++n) name = absl::StrCat(first, ".", n);
    SMELT_RETURN_IF_ERROR(WriteNpy((fs::path(path) / (name + ".npy")).string(), *tensor));
  }
  return others;
}

}  // namespace

absl::StatusOr<NamedTensors> ReadTensors(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return ReadFolder(path);
  const std::string beginning = Beginning(path);
  if (IsNpy(beginning)) {
    NamedTensors out{.path = path, .tensors = {}, .is_one_npy = true};
    SMELT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    out.tensors.emplace("", ParseNpy(bytes, path));
    return out;
  }
  if (absl::StartsWith(beginning, "PK\x03\x04")) return ReadNpz(path);
  NamedTensors out{.path = path, .tensors = {}};
  auto file = SafetensorsFile::Read(path);
  if (absl::IsDataLoss(file.status()))
    return absl::DataLossError(absl::StrCat(file.status().message(), "; ", kTensorFiles));
  SMELT_RETURN_IF_ERROR(file.status());
  if ((*file)->metadata().contains("smelt.case"))
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a recorded case, not arguments; --case=", path, " runs it"));
  for (const auto& [name, entry] : (*file)->entries()) out.tensors.emplace(name, (*file)->ReadTensor(name));
  return out;
}

absl::StatusOr<Tensor> ReadOneTensor(const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(NamedTensors file, ReadTensors(path));
  if (file.tensors.size() == 1) return file.tensors.begin()->second;
  return absl::InvalidArgumentError(absl::StrCat(path, ": it holds ", file.tensors.size(),
                                                 " tensors, one expected; --inputs=", path,
                                                 " takes all of them by name"));
}

absl::StatusOr<OtherResults> WriteResults(const std::string& path, const std::vector<NamedDatum>& results,
                                          const std::string& values) {
  std::error_code error;
  if (absl::EndsWith(path, "/") || fs::is_directory(path, error)) return WriteFolder(path, results);
  if (absl::EndsWith(path, ".npy")) {
    const std::optional<Tensor> tensor = results.size() == 1 ? AsTensor(results[0].value) : std::nullopt;
    if (!tensor) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": one tensor expected for a .npy, but there are ",
                                                     results.size(), " results; write a folder (",
                                                     path.substr(0, path.size() - 4), "/) or a .safetensors"));
    }
    SMELT_RETURN_IF_ERROR(WriteNpy(path, *tensor));
    return OtherResults();
  }
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  OtherResults others;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].value.IsTensor()) {
      tensors[results[i].name] = results[i].value.tensor();
    } else {
      others.in_metadata.push_back(i);
    }
  }
  if (!others.in_metadata.empty()) metadata["smelt.values"] = values;
  SMELT_RETURN_IF_ERROR(WriteSafetensors(path, tensors, metadata));
  return others;
}

}  // namespace smelt
