// An operator's name, interned: comparing costs a pointer compare.
//
//   OpName add = OpName::Get("aten::add.Tensor");
//   add.name() == "aten::add";  add.overload() == "Tensor";  add.full() == "aten::add.Tensor"
//
// Names live as long as the process. Thread-safe.
#ifndef SMELT_CORE_IR_OP_NAME_H_
#define SMELT_CORE_IR_OP_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace smelt {

class OpName {
 public:
  OpName() = default;
  static OpName Get(absl::string_view full);
  // Returns the name of an operator that the user declares (core/op/declare.h). Names with different schemas are
  // different, and Get(full) is yet another name.
  static OpName GetDeclared(absl::string_view full, absl::string_view schema);
  const std::string& full() const { return rep_->full; }
  const std::string& name() const { return rep_->name; }                    // with the namespace
  const std::string& overload() const { return rep_->overload; }            // "" for the default one
  bool IsDeclared() const { return rep_ != nullptr && rep_->is_declared; }  // GetDeclared made it
  bool operator==(OpName o) const { return rep_ == o.rep_; }
  bool operator!=(OpName o) const { return rep_ != o.rep_; }
  bool operator==(absl::string_view full_name) const {
    return rep_ != nullptr && absl::string_view(rep_->full) == full_name;
  }
  explicit operator bool() const { return rep_ != nullptr; }
  template <typename H>
  friend H AbslHashValue(H h, OpName o) {
    return H::combine(std::move(h), o.rep_);
  }

 private:
  // `schema` is empty for operators that are not declared.
  static OpName Intern(absl::string_view full, absl::string_view schema);

  struct Rep {
    std::string full, name, overload;
    bool is_declared = false;
  };
  const Rep* rep_ = nullptr;
};

}  // namespace smelt

#endif  // SMELT_CORE_IR_OP_NAME_H_
