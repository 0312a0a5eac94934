#pragma once
#include <type_traits>

namespace tally::plan {

// A field of a Plan or of a CodecSpec as a number: all values fit into a double without loss.
template <typename Owner>
struct Field {
  double (*get)(const Owner&) = nullptr;
  void (*set)(Owner&, double) = nullptr;
};

template <typename Owner, typename T>
Owner owner_of(T Owner::*);

template <auto kMember>
constexpr auto field_of() {
  using Owner = decltype(owner_of(kMember));
  return Field<Owner>{[](const Owner& owner) { return static_cast<double>(owner.*kMember); },
                      [](Owner& owner, double value) {
                        owner.*kMember = static_cast<std::decay_t<decltype(owner.*kMember)>>(value);
                      }};
}

}  // namespace tally::plan
