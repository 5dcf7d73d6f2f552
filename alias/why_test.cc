// Explanations of the database's answers: the path behind a "may", and the obstacles to a move.
#include "gtest/gtest.h"
#include "smelt/alias/scenario.h"

namespace smelt {
namespace {

constexpr char kGraph[] = R"(graph(%x : Float(4, 8, strides=[8, 1]), %y : Tensor, %c : bool, %n : int, %l : Tensor[]):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %row : Tensor = aten::select(%x, %zero, %one)
  %cell : Tensor = aten::select(%row, %zero, %one)
  %fresh : Tensor = aten::relu(%x)
  %either : Tensor = prim::If(%c)
    block0():
      -> (%cell)
    block1():
      -> (%fresh)
  %carried : Tensor = prim::Loop(%n, %yes, %fresh)
    block0(%i : int, %p : Tensor):
      %next : Tensor = aten::t(%p)
      -> (%yes, %row)
  %mine : Tensor[] = prim::ListConstruct(%row, %fresh)
  %taken : Tensor = aten::__getitem__(%mine, %zero)
  %element : Tensor = aten::__getitem__(%l, %zero)
  %w : Tensor = aten::relu_(%cell)
  %sum : Tensor = aten::sum(%row)
  %q : Tensor = aten::relu(%sum)
  return (%either, %carried, %taken, %w, %sum, %q)
)";

TEST(WhyTest, AViewIsFollowedToWhatItIsAViewOf) {
  Expect(kGraph, R"(
    why_alias %cell %x: true: %cell is a view of %row by aten::select; %row is a view of %x by aten::select; %x is an input; %x is an input; both live in the memory of %x
    why_alias %fresh %x: false)");
}

TEST(WhyTest, ABranchHandsOnWhatItsBlockReturns) {
  Expect(kGraph, R"(
    why_alias %either %row: true: %either is %cell, a result of prim::If's block; %cell is a view of %row by aten::select; %row is a view of %x by aten::select; %x is an input; %row is a view of %x by aten::select; %x is an input; both live in the memory of %x)");
}

TEST(WhyTest, ACarriedValueComesAroundTheLoop) {
  Expect(kGraph, R"(
    why_alias %next %x: true: %next is a view of %p by aten::t; %row comes around the loop as %p; %row is a view of %x by aten::select; %x is an input; %x is an input; both live in the memory of %x)");
}

TEST(WhyTest, AnElementIsTakenOutOfItsList) {
  Expect(kGraph, R"(
    why_alias %taken %x: true: %taken is taken out of memory by aten::__getitem__ (%taken): %row; %x is an input; both live in the memory of %x
    why_alias %mine %x: true: by what they contain; %mine is %row, returned by prim::ListConstruct; %row is a view of %x by aten::select; %x is an input; %x is an input; both live in the memory of %x)");
}

TEST(WhyTest, TheCallersTensorsMayOverlap) {
  Expect(kGraph, R"(
    why_alias %element %y: true: %element is taken out of memory by aten::__getitem__ (%element): %l[0]; %y is an input; %l[0] and %y may overlap: both are the caller's)");
}

TEST(WhyTest, AMoveNamesTheWriterAndTheAliasItWritesThrough) {
  Expect(kGraph, R"(
    why_move_before %sum %w: false: %row is written by aten::relu_ (%w), through its alias %cell
    why_move_after %w %sum: false: %row is written by aten::relu_ (%w), through its alias %cell
    why_move_before %q %sum: false: aten::relu (%q) uses %sum
    why_move_before %sum %sum: false: a node cannot move beside itself
    why_move_before %sum %taken: true)");
}

}  // namespace
}  // namespace smelt
