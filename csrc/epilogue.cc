// The table of epilogue names.
#include "epilogue.h"

#include "errors.h"

namespace lt {
namespace {

struct Named {
  const char* name;
  Activation activation;
  BiasRole bias;  // the role of a bias, where there is one
};

constexpr Named kNames[] = {
    {"", Activation::kNone, BiasRole::kAdd},
    {"relu", Activation::kRelu, BiasRole::kAdd},
    {"gelu", Activation::kGelu, BiasRole::kAdd},
    {"relu_aux", Activation::kReluAux, BiasRole::kAdd},
    {"gelu_aux", Activation::kGeluAux, BiasRole::kAdd},
    {"drelu", Activation::kDRelu, BiasRole::kGradOfD},
    {"dgelu", Activation::kDGelu, BiasRole::kGradOfD},
    {"bgrada", Activation::kNone, BiasRole::kGradOfA},
    {"bgradb", Activation::kNone, BiasRole::kGradOfB},
};

}  // namespace

Epilogue make_epilogue(const std::string& name, bool has_bias) {
  for (const Named& known : kNames) {
    if (name != known.name) continue;
    bool needs_bias = known.bias == BiasRole::kGradOfA || known.bias == BiasRole::kGradOfB;
    if (needs_bias && !has_bias) {
      throw ArgumentError("epilogue \"" + name + "\" writes a bias gradient, so bias has to be labelled.");
    }
    return {known.activation, has_bias ? known.bias : BiasRole::kNone};
  }
  std::string known;
  for (const Named& each : kNames) known += each.name[0] ? std::string(known.empty() ? "" : ", ") + each.name : "";
  throw ArgumentError("epilogue must be \"\" or one of " + known + ", was \"" + name + "\".");
}

}  // namespace lt
