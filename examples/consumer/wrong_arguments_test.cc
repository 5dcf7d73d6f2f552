// A program that compiles cannot show that another one does not, but it can show that an expression would not compile.
#include <cstdio>

#include "attention.h"
#include "digits.h"

namespace {

template <typename T>
concept FitsDigits = requires(digits::Session session, T t) { session.Run({.images = t}); };
template <typename X, typename Position>
concept FitsAttention = requires(attention::Session session, X x, Position p) { session.Run({.x = x, .position = p}); };

using smelt::kAnySize;
using smelt::TensorOf;
using Images = TensorOf<float, kAnySize, 1, 8, 8>;
using Token = TensorOf<float, 1, 1, 64>;
using Position = TensorOf<int64_t, 1>;

static_assert(FitsDigits<Images>);
static_assert(!FitsDigits<TensorOf<double, kAnySize, 1, 8, 8>>);  // dtype
static_assert(!FitsDigits<TensorOf<float, kAnySize, 8, 8>>);      // rank
static_assert(!FitsDigits<TensorOf<float, kAnySize, 1, 8, 9>>);   // size
static_assert(!FitsDigits<smelt::Tensor>);                        // no type at all
static_assert(!FitsDigits<Token>);                                // another model's
static_assert(FitsAttention<Token, Position>);
static_assert(!FitsAttention<Position, Token>);  // mixed up
static_assert(!FitsAttention<Token, Token>);

template <typename T>
concept HasX = requires(T t) { T{.x = Token::Empty()}; };
static_assert(!HasX<digits::Inputs>);  // no such input
template <typename T>
concept CanLeaveOut = requires { T{.x = Token::Empty()}; };
static_assert(!CanLeaveOut<attention::Inputs>);  // position is missing

}  // namespace

int main() { std::puts("checked by the compiler"); }
