#pragma once

// Methods of the exported module as TorchScript, which libtorch compiles. Each text takes the
// attributes and buffers that it names from the module; torchscript.cc adds them.
namespace tally::app::torchscript {

// answer(): the outputs of the model as probabilities or values.
extern const char* const kClassify;
extern const char* const kDecide;
extern const char* const kRegress;

// best(): the most probable class of each answer, or its value.
extern const char* const kBestClass;
extern const char* const kBestValue;

// forward(), and encode() where inputs are not tensors.
extern const char* const kImages;
extern const char* const kTables;  // after kNumbers
extern const char* const kVectors;
extern const char* const kKeys;

// number_in(): the number that a field of a table has.
extern const char* const kNumbers;

// encode() for tables of the user's own, and the body of their predict().
extern const char* const kKeyedColumns;  // after kNumbers
extern const char* const kPredictRows;

// Texts: forward() and continued(); then encode(), decode() and generate() of one of the levels.
extern const char* const kSymbols;
extern const char* const kCharacters;
extern const char* const kBytes;

}  // namespace tally::app::torchscript
