#include "smelt/codegen/libdevice.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string LibdeviceName(ScalarOp op, bool is_double) {
  const char* name = nullptr;
  switch (op) {
    case ScalarOp::kPow:
      name = "pow";
      break;
    case ScalarOp::kAtan2:
      name = "atan2";
      break;
    case ScalarOp::kHypot:
      name = "hypot";
      break;
    case ScalarOp::kNextAfter:
      name = "nextafter";
      break;
    case ScalarOp::kRemTrunc:
      name = "fmod";
      break;
    case ScalarOp::kExp:
      name = "exp";
      break;
    case ScalarOp::kExp2:
      name = "exp2";
      break;
    case ScalarOp::kExpm1:
      name = "expm1";
      break;
    case ScalarOp::kLog:
      name = "log";
      break;
    case ScalarOp::kLog2:
      name = "log2";
      break;
    case ScalarOp::kLog10:
      name = "log10";
      break;
    case ScalarOp::kLog1p:
      name = "log1p";
      break;
    case ScalarOp::kSin:
      name = "sin";
      break;
    case ScalarOp::kCos:
      name = "cos";
      break;
    case ScalarOp::kTan:
      name = "tan";
      break;
    case ScalarOp::kAsin:
      name = "asin";
      break;
    case ScalarOp::kAcos:
      name = "acos";
      break;
    case ScalarOp::kAtan:
      name = "atan";
      break;
    case ScalarOp::kSinh:
      name = "sinh";
      break;
    case ScalarOp::kCosh:
      name = "cosh";
      break;
    case ScalarOp::kTanh:
      name = "tanh";
      break;
    case ScalarOp::kAsinh:
      name = "asinh";
      break;
    case ScalarOp::kAcosh:
      name = "acosh";
      break;
    case ScalarOp::kAtanh:
      name = "atanh";
      break;
    case ScalarOp::kErf:
      name = "erf";
      break;
    case ScalarOp::kErfc:
      name = "erfc";
      break;
    case ScalarOp::kErfinv:
      name = "erfinv";
      break;
    case ScalarOp::kLgamma:
      name = "lgamma";
      break;
    default:
      return "";
  }
  return absl::StrCat("__nv_", name, is_double ? "" : "f");
}

}  // namespace smelt
