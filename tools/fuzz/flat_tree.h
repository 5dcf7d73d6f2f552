// A FlatBuffer as a tree that may be changed in any way and written again. It knows the format by its schema alone, so
// that it needs no list of fields, and it writes what no writer would: for tests of readers.
//
//   FlatSchema schema(fb::BundleBinarySchema::data());
//   FlatValue tree = schema.Read(metadata);              // of a valid file
//   Mutate(schema, {&tree, &another}, random, tree);     // flat_mutator.h
//   std::string bytes = schema.Write(tree);
#ifndef SMELT_TOOLS_FUZZ_FLAT_TREE_H_
#define SMELT_TOOLS_FUZZ_FLAT_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "flatbuffers/flatbuffers.h"
#include "flatbuffers/reflection_generated.h"

namespace smelt {

struct FlatValue {
  // The field of a table or struct of the schema, or an element of that field's vector; -1: the root. A value in a tree
  // may be replaced by any value with the same slot.
  int slot = -1;
  reflection::BaseType kind = reflection::None;
  reflection::BaseType element = reflection::None;  // of a vector
  int index = -1;  // the object of the schema, of a table, struct, union or vector of them; or the enum of a scalar
  bool present = true;
  uint64_t bits = 0;             // of a scalar
  std::string text;              // of a string, or a vector of bytes
  std::vector<FlatValue> items;  // elements of a vector; fields of a table or struct, by their id
};

class FlatSchema {
 public:
  // `binary_schema` must outlive it: what flatc generates with --bfbs-gen-embed.
  explicit FlatSchema(const void* binary_schema);

  // The bytes must be a valid FlatBuffer of the schema.
  FlatValue Read(absl::Span<const uint8_t> bytes) const;
  std::string Write(const FlatValue& root) const;

  // An absent value of each field, as FlatValue::items of a table.
  const std::vector<FlatValue>& FieldsOf(int object) const { return absent_[object]; }
  bool IsStruct(int object) const { return schema_->objects()->Get(object)->is_struct(); }
  // Slots are less than this.
  int slots() const { return 2 * kElements; }
  // Returns the number of an enum's values.
  int64_t EnumValues(int index) const { return schema_->enums()->Get(index)->values()->size(); }

 private:
  using Offset = flatbuffers::Offset<void>;
  static constexpr int kFields = 256, kElements = 1 << 15;  // slots: fields of an object; where those of elements begin

  const reflection::Field& FieldOf(int object, size_t id) const { return *fields_[object][id]; }
  void ReadTable(const flatbuffers::Table* table, FlatValue* out) const;
  void ReadStruct(const uint8_t* data, FlatValue* out) const;
  void ReadVector(const uint8_t* vector, FlatValue* out) const;
  Offset WriteTable(const FlatValue& table, flatbuffers::FlatBufferBuilder& builder) const;
  Offset WriteVector(const FlatValue& vector, flatbuffers::FlatBufferBuilder& builder) const;
  Offset WriteOutOfLine(const FlatValue& value, flatbuffers::FlatBufferBuilder& builder) const;

  const reflection::Schema* schema_;
  std::vector<std::vector<const reflection::Field*>> fields_;  // by object, by id
  std::vector<std::vector<FlatValue>> absent_;                 // by object
};

// Returns the number of bytes of a scalar.
size_t ScalarBytes(reflection::BaseType type);
inline bool IsScalar(reflection::BaseType t) { return t >= reflection::UType && t <= reflection::Double; }

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_FLAT_TREE_H_
