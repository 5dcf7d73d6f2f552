// Converts one model of a batch, or skips it if it was converted before.
#ifndef SMELT_TOOLS_CONVERT_MODEL_H_
#define SMELT_TOOLS_CONVERT_MODEL_H_

#include <string>

#include "smelt/pipeline/compile.h"
#include "smelt/tools/convert_inputs.h"
#include "smelt/tools/convert_record.h"

namespace smelt {

struct ConvertPlaces {
  std::string bundle;  // OUT/RELATIVE.smb
  std::string record;  // OUT/.smelt/RELATIVE.json: the model and options of the bundle
};
ConvertPlaces PlacesOf(const std::string& out_dir, const ConvertInput& input);

// Identifies everything that a bundle depends on besides its model: the options, and the bytes of this program.
std::string ConvertIdentity(const CompileOptions& options);

// A model is skipped if a record says that this content, with these options and this compiler, gave the present bundle.
// The record is written after the bundle, both as a whole or not at all.
ConvertRecord ConvertModel(const ConvertInput& input, const ConvertPlaces& places, const CompileOptions& options,
                           const std::string& identity);

}  // namespace smelt

#endif  // SMELT_TOOLS_CONVERT_MODEL_H_
