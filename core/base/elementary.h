// Functions of numbers, for constants that are computed while a model is compiled: the C library's differ in the last bit
// from one machine and version to another, these do not.
//
//   Power(10, 22);       // 1e22
//   Log1p(-0x1p-60);     // -0x1p-60
#ifndef SMELT_CORE_BASE_ELEMENTARY_H_
#define SMELT_CORE_BASE_ELEMENTARY_H_

namespace smelt {

// Both return the double that is nearest to the exact result. Where that lies within 2^-90 of the middle between two
// doubles, they may return the other one; so may Power for results below 2^-1022. They take microseconds.

// Returns base to the power of exponent. The base is positive, or NaN.
double Power(double base, double exponent);

// Returns log(1 + x). x is above -1, or NaN.
double Log1p(double x);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_ELEMENTARY_H_
