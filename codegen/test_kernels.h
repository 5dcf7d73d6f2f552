// Kernels, as text, that more than one test compiles.
#ifndef SMELT_CODEGEN_TEST_KERNELS_H_
#define SMELT_CODEGEN_TEST_KERNELS_H_

namespace smelt {

// A copy between operands that may share memory.
inline constexpr char kTestCopy[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";
// A copy between operands that share none.
inline constexpr char kTestDistinctCopy[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=0
param float32 w [unit] alias=1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";
// The copy of a matrix that lies the other way.
inline constexpr char kTestTransposed[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";
// A copy that rounds.
inline constexpr char kTestRounding[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
%0 = load.p0 float32
%1 = cast bfloat16 %0
%2 = store.p1 bfloat16 %1
outer 0 1 2
)";
// p2 = p0 transposed + p1
inline constexpr char kTestAddTransposed[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [unit,any] alias=-1
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = add float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)";
// The maximum of each row.
inline constexpr char kTestRowMax[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)";
// The sum of each row.
inline constexpr char kTestRowSum[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)";
// The sum of each column.
inline constexpr char kTestColumnSum[] = R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)";
// The maximum of each column, negated.
inline constexpr char kTestColumnMax[] = R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = neg float32 %1
%3 = store.p1 float32 %2
inner 0 1
outer 2 3
)";
// Each row, less its maximum.
inline constexpr char kTestCentered[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=0
param float32 w [any,unit] alias=1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = neg float32 %1
%3 = load.p0 float32
%4 = add float32 %3 %2
%5 = store.p1 float32 %4
inner 0 1
outer 2
inner 3 4 5
)";
// The softmax of each row, which goes over a row three times.
inline constexpr char kTestSoftmax[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 rw [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = exp float32 %3
%5 = reduce.sum float32 %4
%6 = store.p1 float32 %4
%7 = load.p1 float32
%8 = div float32 %7 %5
%9 = store.p1 float32 %8
inner 0 1
inner 2 3 4 5 6
inner 7 8 9
)";
// The same by one quotient per row, which the elements are multiplied by.
inline constexpr char kTestSoftmaxByProducts[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 rw [any,unit] alias=-1
%0 = const float32 1
%1 = load.p0 float32
%2 = reduce.max float32 %1
%3 = load.p0 float32
%4 = sub float32 %3 %2
%5 = exp float32 %4
%6 = reduce.sum float32 %5
%7 = store.p1 float32 %5
%8 = div float32 %0 %6
%9 = load.p1 float32
%10 = mul float32 %8 %9
%11 = store.p1 float32 %10
outer 0
inner 1 2
inner 3 4 5 6 7
outer 8
inner 9 10 11
)";

}  // namespace smelt

#endif  // SMELT_CODEGEN_TEST_KERNELS_H_
