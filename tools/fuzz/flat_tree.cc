#include "smelt/tools/fuzz/flat_tree.h"

#include <algorithm>
#include <cstring>

#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using reflection::BaseType;

// Little-endian, as the file has them; signed ones are extended.
uint64_t LoadScalar(const uint8_t* p, BaseType type) {
  switch (ScalarBytes(type)) {
    case 1: {
      uint8_t v;
      std::memcpy(&v, p, 1);
      return type == reflection::Byte ? static_cast<uint64_t>(static_cast<int8_t>(v)) : v;
    }
    case 2: {
      uint16_t v;
      std::memcpy(&v, p, 2);
      return type == reflection::Short ? static_cast<uint64_t>(static_cast<int16_t>(v)) : v;
    }
    case 4: {
      uint32_t v;
      std::memcpy(&v, p, 4);
      return type == reflection::Int ? static_cast<uint64_t>(static_cast<int32_t>(v)) : v;
    }
    default: {
      uint64_t v;
      std::memcpy(&v, p, 8);
      return v;
    }
  }
}

uint64_t DefaultOf(const reflection::Field& field) {
  if (field.type()->base_type() != reflection::Double) return static_cast<uint64_t>(field.default_integer());
  uint64_t bits;
  const double value = field.default_real();
  std::memcpy(&bits, &value, 8);
  return bits;
}

bool IsBytes(const FlatValue& vector) { return vector.element == reflection::UByte && vector.index < 0; }

}  // namespace

size_t ScalarBytes(BaseType type) {
  switch (type) {
    case reflection::UType:
    case reflection::Bool:
    case reflection::Byte:
    case reflection::UByte:
      return 1;
    case reflection::Short:
    case reflection::UShort:
      return 2;
    case reflection::Int:
    case reflection::UInt:
    case reflection::Float:
      return 4;
    default:
      return 8;
  }
}

FlatSchema::FlatSchema(const void* binary_schema) : schema_(reflection::GetSchema(binary_schema)) {
  const int objects = static_cast<int>(schema_->objects()->size());
  SMELT_CHECK(objects * kFields <= kElements);
  fields_.resize(objects);
  absent_.resize(objects);
  for (int o = 0; o < objects; ++o) {
    const auto* fields = schema_->objects()->Get(o)->fields();
    fields_[o].resize(fields->size());
    absent_[o].resize(fields->size());
    for (const reflection::Field* field : *fields) {
      fields_[o][field->id()] = field;
      FlatValue& value = absent_[o][field->id()];
      value.slot = o * kFields + field->id();
      value.kind = field->type()->base_type();
      value.element = field->type()->element();
      value.index = field->type()->index();
      value.present = false;
      if (IsScalar(value.kind)) value.bits = DefaultOf(*field);
    }
  }
}

FlatValue FlatSchema::Read(absl::Span<const uint8_t> bytes) const {
  FlatValue root;
  root.kind = reflection::Obj;
  for (int o = 0; o < static_cast<int>(schema_->objects()->size()); ++o) {
    if (schema_->objects()->Get(o) == schema_->root_table()) root.index = o;
  }
  SMELT_CHECK(root.index >= 0);
  ReadTable(flatbuffers::GetRoot<flatbuffers::Table>(bytes.data()), &root);
  return root;
}

void FlatSchema::ReadTable(const flatbuffers::Table* table, FlatValue* out) const {
  out->items = absent_[out->index];
  for (size_t id = 0; id < out->items.size(); ++id) {
    const flatbuffers::voffset_t at = table->GetOptionalFieldOffset(FieldOf(out->index, id).offset());
    if (at == 0) continue;
    FlatValue& value = out->items[id];
    value.present = true;
    const uint8_t* place = reinterpret_cast<const uint8_t*>(table) + at;
    if (IsScalar(value.kind)) {
      value.bits = LoadScalar(place, value.kind);
      continue;
    }
    const uint8_t* target = place + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(place);
    if (value.kind == reflection::String) {
      value.text = reinterpret_cast<const flatbuffers::String*>(target)->str();
    } else if (value.kind == reflection::Vector) {
      ReadVector(target, &value);
    } else if (value.kind == reflection::Union) {
      // The field before it states which table it is.
      value.index = -1;
      for (const reflection::EnumVal* e : *schema_->enums()->Get(FieldOf(out->index, id).type()->index())->values()) {
        if (static_cast<uint64_t>(e->value()) == out->items[id - 1].bits) value.index = e->union_type()->index();
      }
      if (value.index < 0) {
        value.present = false;
      } else {
        ReadTable(reinterpret_cast<const flatbuffers::Table*>(target), &value);
      }
    } else {
      ReadTable(reinterpret_cast<const flatbuffers::Table*>(target), &value);
    }
  }
}

void FlatSchema::ReadStruct(const uint8_t* data, FlatValue* out) const {
  out->items = absent_[out->index];
  for (size_t id = 0; id < out->items.size(); ++id) {
    out->items[id].present = true;
    out->items[id].bits = LoadScalar(data + FieldOf(out->index, id).offset(), out->items[id].kind);
  }
}

void FlatSchema::ReadVector(const uint8_t* vector, FlatValue* out) const {
  const uint32_t size = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
  const uint8_t* data = vector + sizeof(flatbuffers::uoffset_t);
  if (IsBytes(*out)) {
    out->text.assign(reinterpret_cast<const char*>(data), size);
    return;
  }
  out->items.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    FlatValue& value = out->items[i];
    value.slot = out->slot + kElements;
    value.kind = out->element;
    value.index = out->index;
    if (IsScalar(value.kind)) {
      value.bits = LoadScalar(data + i * ScalarBytes(value.kind), value.kind);
    } else if (value.kind == reflection::Obj && IsStruct(value.index)) {
      ReadStruct(data + i * schema_->objects()->Get(value.index)->bytesize(), &value);
    } else {
      const uint8_t* place = data + i * sizeof(flatbuffers::uoffset_t);
      const uint8_t* target = place + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(place);
      if (value.kind == reflection::String) {
        value.text = reinterpret_cast<const flatbuffers::String*>(target)->str();
      } else {
        ReadTable(reinterpret_cast<const flatbuffers::Table*>(target), &value);
      }
    }
  }
}

std::string FlatSchema::Write(const FlatValue& root) const {
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  const Offset offset = WriteTable(root, builder);
  builder.Finish(offset, schema_->file_ident()->c_str());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

FlatSchema::Offset FlatSchema::WriteOutOfLine(const FlatValue& value, flatbuffers::FlatBufferBuilder& builder) const {
  if (value.kind == reflection::String) return builder.CreateString(value.text).o;
  return value.kind == reflection::Vector ? WriteVector(value, builder) : WriteTable(value, builder);
}

FlatSchema::Offset FlatSchema::WriteTable(const FlatValue& table, flatbuffers::FlatBufferBuilder& builder) const {
  std::vector<Offset> offsets(table.items.size());
  for (size_t id = 0; id < table.items.size(); ++id) {
    const FlatValue& value = table.items[id];
    if (value.present && !IsScalar(value.kind)) offsets[id] = WriteOutOfLine(value, builder);
  }
  const flatbuffers::uoffset_t start = builder.StartTable();
  for (size_t id = 0; id < table.items.size(); ++id) {
    const FlatValue& value = table.items[id];
    if (!value.present) continue;
    const flatbuffers::voffset_t at = FieldOf(table.index, id).offset();
    if (!IsScalar(value.kind)) {
      builder.AddOffset(at, offsets[id]);
      continue;
    }
    switch (ScalarBytes(value.kind)) {
      case 1:
        builder.AddElement<uint8_t>(at, static_cast<uint8_t>(value.bits));
        break;
      case 2:
        builder.AddElement<uint16_t>(at, static_cast<uint16_t>(value.bits));
        break;
      case 4:
        builder.AddElement<uint32_t>(at, static_cast<uint32_t>(value.bits));
        break;
      default:
        builder.AddElement<uint64_t>(at, value.bits);
    }
  }
  return Offset(builder.EndTable(start));
}

FlatSchema::Offset FlatSchema::WriteVector(const FlatValue& vector, flatbuffers::FlatBufferBuilder& builder) const {
  if (IsBytes(vector)) {
    return builder.CreateVector(reinterpret_cast<const uint8_t*>(vector.text.data()), vector.text.size()).o;
  }
  const size_t size = vector.items.size();
  const bool is_struct = vector.element == reflection::Obj && IsStruct(vector.index);
  if (!IsScalar(vector.element) && !is_struct) {
    std::vector<Offset> offsets;
    for (const FlatValue& value : vector.items) offsets.push_back(WriteOutOfLine(value, builder));
    return builder.CreateVector(offsets).o;
  }
  const reflection::Object* object = is_struct ? schema_->objects()->Get(vector.index) : nullptr;
  const size_t item = is_struct ? object->bytesize() : ScalarBytes(vector.element);
  const size_t align = is_struct ? object->minalign() : item;
  std::string bytes(size * item, '\0');
  for (size_t i = 0; i < size; ++i) {
    const FlatValue& value = vector.items[i];
    if (!is_struct) {
      std::memcpy(&bytes[i * item], &value.bits, item);
      continue;
    }
    for (size_t id = 0; id < value.items.size(); ++id) {
      std::memcpy(&bytes[i * item + FieldOf(vector.index, id).offset()], &value.items[id].bits,
                  ScalarBytes(value.items[id].kind));
    }
  }
  builder.StartVector(bytes.size() / align, align);
  builder.PushBytes(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return Offset(builder.EndVector(size));
}

}  // namespace smelt
