#include "smelt/alias/random_program.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/op/ops.h"

namespace smelt {

namespace {

class Generator {
 public:
  Generator(uint64_t seed, const RandomProgramOptions& o) : rng_(seed), o_(o) {}

  std::string Make() {
    std::string out = "graph(";
    const int inputs = 1 + Below(3);
    for (int i = 0; i < inputs; ++i) {
      std::string name = Fresh("x");
      const char* type = o_.typed_inputs ? "Float(2, 3, strides=[3, 1])" : "Tensor";
      absl::StrAppend(&out, "%", name, " : ", type, ", ");
      tensors_.push_back(name);
    }
    if (Below(4) == 0) {
      absl::StrAppend(&out, "%inlist : Tensor[], ");
      lists_.push_back("inlist");
    }
    out += "%n : int, %m : int, %c : bool, %d : bool):\n";
    Constants(&out);
    if (o_.calls) out += kFunction;
    left_ = o_.nodes;
    Block(2, 0, &out);
    absl::StrAppend(&out, "  return (");
    std::vector<std::string> results;
    for (int i = 0; i < 1 + Below(2); ++i) results.push_back("%" + Pick(tensors_));
    if (!lists_.empty() && Below(3) == 0) results.push_back("%" + Pick(lists_));
    absl::StrAppend(&out, absl::StrJoin(results, ", "), ")\n");
    return out + graphs_;
  }

 private:
  static constexpr char kFunction[] = "  %fn : Function = prim::Constant[name=\"f\"]()\n";

  static constexpr char kSizes[] =
      "  %tall : int[] = prim::ListConstruct(%k2, %km1)\n"
      "  %deep : int[] = prim::ListConstruct(%k2, %km1, %km1)\n";

  static constexpr char kLists[] =
      "  %km2 : int = prim::Constant[value=-2]()\n"
      "  %z0 : int[] = prim::ListConstruct(%km1)\n"
      "  %z1 : int[] = prim::ListConstruct(%k2, %km1)\n"
      "  %z2 : int[] = prim::ListConstruct(%km1, %k1)\n"
      "  %z3 : int[] = prim::ListConstruct(%k1, %k0)\n"
      "  %z4 : int[] = prim::ListConstruct(%k2, %k0, %k1)\n"
      "  %z5 : int[] = prim::ListConstruct(%k0, %km1, %km2)\n"
      "  %z6 : int[] = prim::ListConstruct(%k2, %k2)\n"
      "  %z7 : int[] = prim::ListConstruct(%k3, %k1)\n"
      "  %z8 : int[] = prim::ListConstruct(%k2)\n"
      "  %z9 : int[] = prim::ListConstruct(%k1)\n";

  void Constants(std::string* out) {
    for (int i = -1; i <= 4; ++i) {
      absl::StrAppend(out, "  %k", i < 0 ? "m" : "", std::abs(i), " : int = prim::Constant[value=", i, "]()\n");
    }
    *out += "  %true : bool = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n";
    if (o_.self_overlaps) *out += kSizes;
    if (o_.any_shape) *out += kLists;
  }

  int Below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  std::string Fresh(const char* prefix) { return absl::StrCat(prefix, next_++); }
  std::string Pick(const std::vector<std::string>& from) {
    // Recent ones more often.
    const int n = static_cast<int>(from.size());
    return from[Below(2) == 0 ? Below(n) : n - 1 - Below(std::min(n, 4))];
  }
  std::string Index() {
    static const char* const kAll[] = {"k0", "k1", "km1", "k2"};
    if (!ints_.empty() && Below(3) == 0) return ints_[Below(static_cast<int>(ints_.size()))];
    return kAll[Below(4)];
  }

  using Names = std::array<std::vector<std::string>, 5>;
  Names InScope() const { return {tensors_, lists_, ints_, int_lists_, conditions_}; }
  void Restore(const Names& n) {
    tensors_ = n[0];
    lists_ = n[1];
    ints_ = n[2];
    int_lists_ = n[3];
    conditions_ = n[4];
  }

  void Block(int indent, int depth, std::string* out) {
    const int here = depth == 0 ? o_.nodes : 1 + Below(5);
    for (int i = 0; i < here && left_ > 0; ++i) Node(indent, depth, out);
  }

  void Node(int indent, int depth, std::string* out) {
    --left_;
    constexpr int kOneInCalls = 8;
    if (o_.calls && Below(kOneInCalls) == 0) return Call(indent, out);
    if (constexpr int kOneIn = 3; o_.any_shape && Below(kOneIn) == 0) return AnyShape(indent, out);
    if (constexpr int kOneIn = 6; o_.self_overlaps && Below(kOneIn) == 0) return SelfOverlap(indent, out);
    const std::string pad(indent, ' ');
    auto line = [&](auto&&... parts) { absl::StrAppend(out, pad, parts..., "\n"); };
    const std::string x = Pick(tensors_);
    const int what = Below(100);
    if (what < 14) {
      std::string v = Fresh("f");
      if (Below(2) == 0) {
        line("%", v, " : Tensor = aten::relu(%", x, ")");
      } else {
        line("%", v, " : Tensor = aten::zeros_like(%", x, ", %none, %none, %none, %none, %none)");
      }
      tensors_.push_back(v);
    } else if (what < 40) {
      std::string v = Fresh("v");
      switch (Below(12)) {
        case 0:
        case 1:
        case 2:
          line("%", v, " : Tensor = aten::select(%", x, ", %", Below(3) == 0 ? "k1" : "k0", ", %", Index(), ")");
          break;
        case 3:
        case 4: {
          static const char* const kBounds[] = {"none", "k0", "k1", "k2", "km1"};
          line("%", v, " : Tensor = aten::slice(%", x, ", %", Below(3) == 0 ? "k1" : "k0", ", %", kBounds[Below(5)],
               ", %", kBounds[Below(5)], ", %", Below(3) == 0 ? "k2" : "k1", ")");
          break;
        }
        case 5:
          line("%", v, " : Tensor = aten::t(%", x, ")");
          break;
        case 6:
          line("%", v, " : Tensor = aten::unsqueeze(%", x, ", %k", Below(2), ")");
          break;
        case 7:
          line("%", v, " : Tensor = aten::detach(%", x, ")");
          break;
        case 8:
          line("%", v, " : Tensor = aten::contiguous(%", x, ", %k0)");
          break;
        case 9:
          line("%", v, " : Tensor = aten::transpose(%", x, ", %k0, %k1)");
          break;
        case 10:
          line("%", v, " : Tensor = aten::diagonal(%", x, ", %k", Below(2), ", %k0, %k1)");
          break;
        default:
          line("%", v, " : Tensor = aten::narrow(%", x, ", %k0, %", Below(2) == 0 ? "k0" : "k1", ", %k1)");
      }
      tensors_.push_back(v);
    } else if (what < 44) {
      std::string l = Fresh("p"), a = Fresh("a"), b = Fresh("b");
      if (Below(2) == 0) {
        line("%", l, " : Tensor[] = aten::chunk(%", x, ", %k2, %k0)");
      } else {
        line("%", l, " : Tensor[] = aten::split(%", x, ", %k1, %k0)");
      }
      if (Below(2) == 0) {
        line("%", a, " : Tensor, %", b, " : Tensor = prim::ListUnpack(%", l, ")");
        tensors_.push_back(a);
        tensors_.push_back(b);
      } else {
        line("%", a, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
        tensors_.push_back(a);
        lists_.push_back(l);
      }
    } else if (what < 60) {
      std::string v = Fresh("w");
      switch (Below(4)) {
        case 0:
          line("%", v, " : Tensor = aten::add_(%", x, ", %", Pick(tensors_), ", %k1)");
          break;
        case 1:
          line("%", v, " : Tensor = aten::mul_(%", x, ", %k2)");
          break;
        case 2:
          line("%", v, " : Tensor = aten::zero_(%", x, ")");
          break;
        default:
          line("%", v, " : Tensor = aten::relu_(%", x, ")");
      }
      tensors_.push_back(v);
    } else if (what < 62 && o_.geometry_changes) {
      std::string v = Fresh("t");
      switch (Below(3)) {
        case 0:
          line("%", v, " : Tensor = aten::t_(%", x, ")");
          break;
        case 1:
          line("%", v, " : Tensor = aten::unsqueeze_(%", x, ", %k0)");
          break;
        default:
          line("%", v, " : Tensor = aten::set_(%", x, ", %", Pick(tensors_), ")");
      }
      tensors_.push_back(v);
    } else if (what < 66) {
      std::string l = Fresh("l");
      std::vector<std::string> elements;
      for (int i = Below(4); i > 0; --i) elements.push_back("%" + Pick(tensors_));
      line("%", l, " : Tensor[] = prim::ListConstruct(", absl::StrJoin(elements, ", "), ")");
      lists_.push_back(l);
    } else if (what < 80 && !lists_.empty()) {
      const std::string l = Pick(lists_);
      std::string v = Fresh("e");
      switch (Below(7)) {
        case 0:
        case 1:
          line("%", v, " : Tensor[] = aten::append(%", l, ", %", x, ")");
          lists_.push_back(v);
          break;
        case 2:
          line("%", v, " : Tensor[] = aten::_set_item(%", l, ", %", Index(), ", %", x, ")");
          lists_.push_back(v);
          break;
        case 3:
          line("%", v, " : Tensor = aten::pop(%", l, ", %km1)");
          tensors_.push_back(v);
          break;
        case 4:
          line("%", v, " : Tensor = aten::cat(%", l, ", %k0)");
          tensors_.push_back(v);
          break;
        default:
          line("%", v, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
          tensors_.push_back(v);
      }
    } else if (what < 83) {
      std::string t = Fresh("q"), a = Fresh("a"), b = Fresh("b");
      line("%", t, " : (Tensor, Tensor) = prim::TupleConstruct(%", x, ", %", Pick(tensors_), ")");
      line("%", a, " : Tensor, %", b, " : Tensor = prim::TupleUnpack(%", t, ")");
      tensors_.push_back(a);
      tensors_.push_back(b);
    } else if (what < 85) {
      line(" = prim::Print(%", x, ")");
    } else if (what < 87) {
      std::string v = Fresh("r");
      line("%", v, " : Tensor = aten::bernoulli(%", x, ", %none)");
      tensors_.push_back(v);
    } else if (what < 88) {
      std::string v = Fresh("s");
      line("%", v, " : int = aten::size(%", x, ", %k0)");
    } else if (depth < o_.max_depth && what < 94) {
      const bool takes_operands = o_.closed_blocks && Below(2) == 0;
      takes_operands ? Cond(indent, depth, out) : If(indent, depth, out);
    } else if (depth < o_.max_depth) {
      const bool takes_operands = o_.closed_blocks && Below(3) != 0;
      takes_operands ? While(indent, depth, out) : Loop(indent, depth, out);
    }
  }

  // A view that overlaps itself, or the slices of one that may.
  void SelfOverlap(int indent, std::string* out) {
    const std::string pad(indent, ' '), x = Pick(tensors_), v = Fresh("o");
    auto line = [&](auto&&... parts) { absl::StrAppend(out, pad, parts..., "\n"); };
    switch (Below(4)) {
      case 0:
        line("%", v, " : Tensor = aten::unfold(%", x, ", %k", Below(2), ", %k", 1 + Below(2), ", %k1)");
        break;
      case 1:
        line("%", v, " : Tensor = aten::expand(%", x, ", %tall, %true)");
        break;
      case 2:
        line("%", v, " : Tensor = aten::expand(%", x, ", %deep, %true)");
        break;
      default: {
        const std::string l = Fresh("p");
        line("%", l, " : Tensor[] = aten::unbind(%", x, ", %k0)");
        if (Below(2) == 0) {
          const std::string other = Fresh("o");
          line("%", v, " : Tensor, %", other, " : Tensor = prim::ListUnpack(%", l, ")");
          tensors_.push_back(other);
        } else {
          line("%", v, " : Tensor = aten::__getitem__(%", l, ", %", Index(), ")");
        }
      }
    }
    tensors_.push_back(v);
  }

  std::string Number() {
    static const char* const kAll[] = {"k0", "k1", "k2", "k3", "km1", "km2"};
    if (!ints_.empty() && Below(2) == 0) return Pick(ints_);
    return kAll[Below(6)];
  }
  std::string Dim() {
    static const char* const kAll[] = {"k0", "k0", "k1", "k2", "km1", "km1", "km2"};
    return kAll[Below(7)];
  }
  std::string Bound() { return Below(3) == 0 ? "none" : Number(); }
  std::string Numbers() {
    if (!int_lists_.empty() && Below(3) == 0) return Pick(int_lists_);
    return absl::StrCat("z", Below(10));
  }

  // See RandomProgramOptions::any_shape.
  void AnyShape(int indent, std::string* out) {
    const std::string x = Pick(tensors_);
    const auto line = [&](const std::string& result, const char* type, auto&&... parts) {
      absl::StrAppend(out, std::string(indent, ' '), "%", result, " : ", type, " = aten::", parts..., ")\n");
    };
    const int what = Below(30);
    if (what < 6) {
      const std::string i = Fresh("i");
      static const char* const kOps[] = {"add", "sub", "mul"};
      switch (Below(5)) {
        case 0:
          line(i, "int", "size(%", x, ", %", Dim());
          break;
        case 1:
          line(i, "int", "neg(%", Number());
          break;
        case 2:
          line(i, "int", "floordiv(%", Number(), ", %k2");
          break;
        default:
          line(i, "int", kOps[Below(3)], "(%", Number(), ", %", Number());
      }
      ints_.push_back(i);
      return;
    }
    if (what < 7) {
      const std::string c = Fresh("c");
      line(c, "bool", "gt(%", Number(), ", %", Number());
      conditions_.push_back(c);
      return;
    }
    if (what < 9) {
      const std::string l = Fresh("l");
      if (Below(2) == 0) {
        line(l, "int[]", "size(%", x);
      } else {
        absl::StrAppend(out, std::string(indent, ' '), "%", l, " : int[] = prim::ListConstruct(%", Number(), ", %",
                        Number(), ")\n");
      }
      int_lists_.push_back(l);
      return;
    }
    if (what < 12) {
      const std::string l = Fresh("p"), a = Fresh("a"), b = Fresh("b");
      switch (Below(3)) {
        case 0:
          line(l, "Tensor[]", "chunk(%", x, ", %k", 2 + Below(2), ", %", Dim());
          break;
        case 1:
          line(l, "Tensor[]", "split(%", x, ", %k", 1 + Below(2), ", %", Dim());
          break;
        default:
          line(l, "Tensor[]", "unbind(%", x, ", %", Dim());
      }
      if (Below(3) != 0) {
        line(a, "Tensor", "__getitem__(%", l, ", %", Number());
        lists_.push_back(l);
      } else {
        absl::StrAppend(out, std::string(indent, ' '), "%", a, " : Tensor, %", b, " : Tensor = prim::ListUnpack(%", l,
                        ")\n");
        tensors_.push_back(b);
      }
      tensors_.push_back(a);
      return;
    }
    const std::string v = Fresh("v");
    AnyView(what - 12, x, [&](auto&&... parts) { line(v, "Tensor", parts...); });
    tensors_.push_back(v);
  }

  // 0 <= what < 18.
  template <typename Line>
  void AnyView(int what, const std::string& x, const Line& line) {
    switch (what) {
      case 0:
      case 1:
        return line("select(%", x, ", %", Dim(), ", %", Number());
      case 2:
      case 3:
        return line("slice(%", x, ", %", Dim(), ", %", Bound(), ", %", Bound(), ", %k", 1 + Below(2));
      case 4:
        return line("narrow(%", x, ", %", Dim(), ", %", Number(), ", %", Below(2) == 0 ? "k1" : Number());
      case 5:
        return line("permute(%", x, ", %z", 3 + Below(3));
      case 6:
        return line(Below(2) == 0 ? "movedim(%" : "transpose(%", x, ", %", Dim(), ", %", Dim());
      case 7:
        return line("view(%", x, ", %", Numbers());
      case 8:
        return line("reshape(%", x, ", %", Numbers());
      case 9:
        return line("flatten(%", x, ", %", Dim(), ", %", Below(2) == 0 ? "km1" : Dim());
      case 10:
        return Below(2) == 0 ? line("squeeze(%", x) : line("squeeze(%", x, ", %", Dim());
      case 11: {
        static const char* const kSizesAndStrides[] = {"%z8, %z9", "%z8, %z9", "%z6, %z7", "%z6, %z3", "%z9, %z8"};
        return line("as_strided(%", x, ", ", kSizesAndStrides[Below(5)], ", %", Below(2) == 0 ? "none" : Number());
      }
      case 12: {
        static const char* const kOps[] = {"expand_as", "view_as", "reshape_as"};
        return line(kOps[Below(3)], "(%", x, ", %", Pick(tensors_));
      }
      case 13:
        return line("diagonal(%", x, ", %", Below(2) == 0 ? "k0" : "km1", ", %", Dim(), ", %", Dim());
      case 14:
        return line("unsqueeze(%", x, ", %", Dim());
      case 15:
        return line("unfold(%", x, ", %", Dim(), ", %k", 1 + Below(2), ", %k", 1 + Below(2));
      case 16:
        return line("zeros(%", Numbers(), ", %none, %none, %none, %none");
      default:
        if (!o_.geometry_changes) return line("expand(%", x, ", %", Numbers(), ", %true");
        return Below(2) == 0 ? line("squeeze_(%", x) : line("transpose_(%", x, ", %", Dim(), ", %", Dim());
    }
  }

  // A call of a graph, or of a function whose results have one of three types.
  void Call(int indent, std::string* out) {
    std::vector<std::string> tensors = {Pick(tensors_)}, lists, args;
    for (int i = Below(3); i > 0; --i) tensors.push_back(Pick(tensors_));
    for (int i = Below(3); i > 0 && !lists_.empty(); --i) lists.push_back(Pick(lists_));
    for (const auto* some : {&tensors, &lists}) {
      for (const std::string& a : *some) args.push_back("%" + a);
    }
    const std::string pad(indent, ' '), r = Fresh("r"), with = absl::StrJoin(args, ", ");
    if (in_graph_ || Below(2) == 0) {
      const int type = Below(5);
      absl::StrAppend(out, pad, "%", r, " : ",
                      type < 2   ? "Tensor"
                      : type < 4 ? "Tensor[]"
                                 : "NoneType",
                      " = prim::CallFunction(%fn, ", with, ")\n");
      if (type < 4) (type < 2 ? tensors_ : lists_).push_back(r);
      return;
    }
    const std::string name = absl::StrCat(op::kSmeltCallPrefix, num_graphs_++), l = Fresh("r");
    const bool list = AddGraph(name, tensors.size(), lists.size());
    absl::StrAppend(out, pad, "%", r, " : Tensor", list ? absl::StrCat(", %", l, " : Tensor[]") : "", " = ", name, "(",
                    with, ", %n, %m, %c, %d)\n");
    tensors_.push_back(r);
    if (list) lists_.push_back(l);
  }

  // Returns whether the graph has a list as a second result.
  bool AddGraph(const std::string& name, size_t num_tensors, size_t num_lists) {
    const Names saved = InScope();
    Restore({});
    const int saved_left = std::exchange(left_, 2 + Below(6));
    in_graph_ = true;
    std::string g = absl::StrCat("with ", name, " = graph(");
    for (size_t i = 0; i < num_tensors; ++i) {
      tensors_.push_back(Fresh("x"));
      absl::StrAppend(&g, "%", tensors_.back(), " : Tensor, ");
    }
    for (size_t i = 0; i < num_lists; ++i) {
      lists_.push_back(Fresh("y"));
      absl::StrAppend(&g, "%", lists_.back(), " : Tensor[], ");
    }
    g += "%n : int, %m : int, %c : bool, %d : bool):\n";
    Constants(&g);
    if (Below(4) == 0) g += kFunction;
    const bool calls = std::exchange(o_.calls, absl::StrContains(g, kFunction));
    Block(2, o_.max_depth - 1, &g);
    o_.calls = calls;
    const bool list = !lists_.empty() && Below(2) == 0;
    absl::StrAppend(&g, "  return (%", Pick(tensors_), list ? ", %" + Pick(lists_) : "", ")\n");
    graphs_ += g;
    in_graph_ = false;
    left_ = saved_left;
    Restore(saved);
    return list;
  }

  std::string Condition() {
    if (o_.closed_blocks && Below(2) == 0) return Pick(tensors_);
    if (!conditions_.empty() && Below(2) == 0) return Pick(conditions_);
    return Below(2) == 0 ? "c" : "d";
  }

  void If(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' ');
    const int results = Below(3);
    std::vector<std::string> names, types;
    bool list = !lists_.empty() && Below(3) == 0;
    std::string body[2];
    const Names saved = InScope();
    for (int b = 0; b < 2; ++b) {
      Block(indent + 4, depth + 1, &body[b]);
      std::vector<std::string> r;
      for (int i = 0; i < results; ++i) r.push_back("%" + Pick(tensors_));
      if (list) r.push_back("%" + Pick(lists_));
      absl::StrAppend(&body[b], pad, "    -> (", absl::StrJoin(r, ", "), ")\n");
      Restore(saved);
    }
    const std::string condition = Condition();  // while its results are not in scope
    std::vector<std::string> outs;
    for (int i = 0; i < results; ++i) {
      std::string v = Fresh("j");
      outs.push_back(absl::StrCat("%", v, " : Tensor"));
      tensors_.push_back(v);
    }
    if (list) {
      std::string v = Fresh("j");
      outs.push_back(absl::StrCat("%", v, " : Tensor[]"));
      lists_.push_back(v);
    }
    absl::StrAppend(out, pad, absl::StrJoin(outs, ", "), " = prim::If(%", condition, ")\n", pad, "  block0():\n",
                    body[0], pad, "  block1():\n", body[1]);
  }

  void Loop(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' ');
    const int carried = 1 + Below(3);
    const bool list = !lists_.empty() && Below(3) == 0;
    std::vector<std::string> inits, params, outs, results;
    for (int i = 0; i < carried; ++i) inits.push_back("%" + Pick(tensors_));
    if (list) inits.push_back("%" + Pick(lists_));
    const Names saved = InScope();
    std::string index = Fresh("i");
    ints_.push_back(index);
    std::vector<std::string> names;
    for (int i = 0; i < carried; ++i) {
      std::string p = Fresh("p");
      params.push_back(absl::StrCat("%", p, " : Tensor"));
      tensors_.push_back(p);
      names.push_back(p);
    }
    if (list) {
      std::string p = Fresh("p");
      params.push_back(absl::StrCat("%", p, " : Tensor[]"));
      lists_.push_back(p);
    }
    std::string body;
    Block(indent + 4, depth + 1, &body);
    for (int i = 0; i < carried; ++i) {
      // Rotations, often.
      results.push_back("%" + (Below(3) == 0 ? names[Below(carried)] : Pick(tensors_)));
    }
    if (list) results.push_back("%" + Pick(lists_));
    Restore(saved);
    for (int i = 0; i < carried; ++i) {
      std::string v = Fresh("o");
      outs.push_back(absl::StrCat("%", v, " : Tensor"));
      tensors_.push_back(v);
    }
    if (list) {
      std::string v = Fresh("o");
      outs.push_back(absl::StrCat("%", v, " : Tensor[]"));
      lists_.push_back(v);
    }
    absl::StrAppend(out, pad, absl::StrJoin(outs, ", "), " = prim::Loop(%", Below(2) == 0 ? "n" : "m", ", %true, ",
                    absl::StrJoin(inits, ", "), ")\n", pad, "  block0(%", index, " : int, ",
                    absl::StrJoin(params, ", "), "):\n", body, pad, "    -> (%true, ", absl::StrJoin(results, ", "),
                    ")\n");
  }

  // Operands of a block that takes them, and the names and types of one block's parameters for them.
  struct Operands {
    std::vector<std::string> tensors, lists;
    std::string Text() const { return absl::StrCat("%", absl::StrJoin(All(), ", %")); }
    std::vector<std::string> All() const {
      std::vector<std::string> out = tensors;
      out.insert(out.end(), lists.begin(), lists.end());
      return out;
    }
  };
  Operands SomeOperands() {
    Operands out;
    for (int i = Below(3); i >= 0; --i) out.tensors.push_back(Pick(tensors_));
    if (!lists_.empty() && Below(3) == 0) out.lists.push_back(Pick(lists_));
    return out;
  }
  // Adds the parameters to what is in scope. Half of the blocks see nothing else, as those of torch.export do.
  Operands Params(const Operands& of, std::string* text) {
    if (Below(2) == 0) {
      tensors_.clear();
      lists_.clear();
    }
    Operands out;
    std::vector<std::string> all;
    for (size_t i = 0; i < of.tensors.size(); ++i) {
      out.tensors.push_back(Fresh("p"));
      tensors_.push_back(out.tensors.back());
      all.push_back(absl::StrCat("%", out.tensors.back(), " : Tensor"));
    }
    for (size_t i = 0; i < of.lists.size(); ++i) {
      out.lists.push_back(Fresh("p"));
      lists_.push_back(out.lists.back());
      all.push_back(absl::StrCat("%", out.lists.back(), " : Tensor[]"));
    }
    *text = absl::StrJoin(all, ", ");
    return out;
  }

  std::string Results(const Operands& made) {
    std::vector<std::string> all;
    for (const std::string& v : made.tensors) all.push_back(absl::StrCat("%", v, " : Tensor"));
    for (const std::string& v : made.lists) all.push_back(absl::StrCat("%", v, " : Tensor[]"));
    tensors_.insert(tensors_.end(), made.tensors.begin(), made.tensors.end());
    lists_.insert(lists_.end(), made.lists.begin(), made.lists.end());
    return absl::StrJoin(all, ", ");
  }

  // Both branches take the operands. They return as many tensors, and a list if one is among the operands.
  void Cond(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' '), condition = Condition();
    const Operands operands = SomeOperands();
    const int results = 1 + Below(2);
    const Names saved = InScope();
    std::string blocks;
    for (int b = 0; b < 2; ++b) {
      std::string params, body;
      Params(operands, &params);
      Block(indent + 4, depth + 1, &body);
      std::vector<std::string> r;
      for (int i = 0; i < results; ++i) r.push_back("%" + Pick(tensors_));
      if (!operands.lists.empty()) r.push_back("%" + Pick(lists_));
      absl::StrAppend(&blocks, pad, "  block", b, "(", params, "):\n", body, pad, "    -> (", absl::StrJoin(r, ", "),
                      ")\n");
      Restore(saved);
    }
    Operands made;
    for (int i = 0; i < results; ++i) made.tensors.push_back(Fresh("j"));
    if (!operands.lists.empty()) made.lists.push_back(Fresh("j"));
    absl::StrAppend(out, pad, Results(made), " = smelt::cond(%", condition, ", ", operands.Text(), ")\n", blocks);
  }

  // Its condition is any tensor, or a number. The last operand may be one that is not carried.
  void While(int indent, int depth, std::string* out) {
    const std::string pad(indent, ' ');
    const Operands operands = SomeOperands();
    const bool adds = operands.lists.empty() && operands.tensors.size() > 1 && Below(3) == 0;
    const size_t carried = operands.tensors.size() - (adds ? 1 : 0);
    const Names saved = InScope();
    std::string blocks;
    for (int b = 0; b < 2; ++b) {
      std::string params, body;
      const Operands mine = Params(operands, &params);
      Block(indent + 4, depth + 1, &body);
      std::vector<std::string> r;
      if (b == 0) {
        r.push_back(absl::StrCat("%", Below(4) == 0 ? "c" : Pick(tensors_)));
      } else {
        for (size_t i = 0; i < carried; ++i) {
          r.push_back("%" +
                      (Below(3) == 0 ? mine.tensors[Below(static_cast<int>(mine.tensors.size()))] : Pick(tensors_)));
        }
        if (!operands.lists.empty()) r.push_back("%" + Pick(lists_));
      }
      absl::StrAppend(&blocks, pad, "  block", b, "(", params, "):\n", body, pad, "    -> (", absl::StrJoin(r, ", "),
                      ")\n");
      Restore(saved);
    }
    Operands made;
    for (size_t i = 0; i < carried; ++i) made.tensors.push_back(Fresh("o"));
    if (!operands.lists.empty()) made.lists.push_back(Fresh("o"));
    absl::StrAppend(out, pad, Results(made), " = smelt::while_loop(", operands.Text(), ")\n", blocks);
  }

  std::mt19937_64 rng_;
  RandomProgramOptions o_;
  int left_ = 0, next_ = 0;
  // Everything that is in scope.
  std::vector<std::string> tensors_, lists_, ints_, int_lists_, conditions_;
  std::string graphs_;
  int num_graphs_ = 0;
  bool in_graph_ = false;
};

}  // namespace

int64_t NumPrograms(int64_t usual) {
  const char* n = std::getenv("SMELT_ALIAS_PROGRAMS");
  return n != nullptr ? std::atoll(n) : usual;
}

int64_t FirstSeed() {
  const char* start = std::getenv("SMELT_ALIAS_SEED");
  return start != nullptr ? std::atoll(start) : 1;
}

std::string RandomProgram(uint64_t seed, const RandomProgramOptions& options) {
  return Generator(seed, options).Make();
}

}  // namespace smelt
