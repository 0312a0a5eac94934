#include "apps/train/use/torchscript_sources.h"

namespace tally::app::torchscript {

// The answers of the model: probabilities or values.
const char* const kClassify = R"(
def answer(self, output: Tensor) -> Tensor:
    return torch.softmax(output, -1)
)";
const char* const kBestClass = R"(
def best(self, answers: Tensor) -> List[Tuple[str, float]]:
    result: List[Tuple[str, float]] = []
    for i in range(answers.size(0)):
        label = int(answers[i].argmax())
        result.append((self.classes[label], float(answers[i, label])))
    return result
)";
const char* const kDecide = R"(
def answer(self, output: Tensor) -> Tensor:
    second = torch.sigmoid(output.reshape([-1]))
    return torch.stack([1 - second, second], 1)
)";
const char* const kRegress = R"(
def answer(self, output: Tensor) -> Tensor:
    return output.reshape([-1]).double() * self.target_deviation + self.target_mean
)";
const char* const kBestValue = R"(
def best(self, answers: Tensor) -> List[float]:
    result: List[float] = []
    for i in range(answers.size(0)):
        result.append(float(answers[i]))
    return result
)";

// Images: bytes or numbers from 0 to 255. An image of another size is cut to its centre and
// resized.
const char* const kImages = R"(
def forward(self, images: Tensor) -> Tensor:
    fits = images.dim() == 4 and images.size(1) == self.channels
    assert fits, "expected images of pixels from 0 to 255: [count, channels, height, width]"
    x = images.float()
    height = x.size(2)
    width = x.size(3)
    if height != self.height or width != self.width:
        scale = min(height / self.height, width / self.width)
        high = int(round(self.height * scale))
        wide = int(round(self.width * scale))
        top = (height - high) // 2
        left = (width - wide) // 2
        x = x[:, :, top:top + high, left:left + wide]
        x = torch._upsample_bilinear2d_aa(x, [self.height, self.width], False, None, None)
    x = (x / 255.0 - self.mean) / self.deviation
    return self.answer(self.model.forward(x))
)";

// Numbers of tables, as data::number_in() reads them: float() also takes hexadecimal ones, and its
// error names neither text nor column.
const char* const kNumbers = R"(
def is_number(self, text: str) -> bool:
    mantissa = text.lower()
    if mantissa.startswith("-"):
        mantissa = mantissa[1:]
    at = mantissa.find("e")
    if at >= 0:
        power = mantissa[at + 1:]
        mantissa = mantissa[:at]
        if power.startswith("+") or power.startswith("-"):
            power = power[1:]
        if not power.isdigit():
            return False
    return mantissa.replace(".", "", 1).isdigit()

def number_in(self, column: str, text: str) -> float:
    unsigned = text[1:] if text.startswith("+") else text
    valid = self.is_number(unsigned)
    value = 0.0
    if valid:
        value = float(unsigned)
        valid = abs(value) <= 3.4028234663852886e38
    assert valid, "expected a number in column " + column + ", found " + text
    return value
)";

// Tables: forward() takes the features before they are scaled: a number, or NaN if it is missing;
// for a text column one feature per category, 1 or 0.
const char* const kTables = R"(
def encode(self, rows: List[Dict[str, str]]) -> Tensor:
    features = torch.zeros([len(rows), self.mean.size(0)]).double()
    for i in range(len(rows)):
        row = rows[i]
        for c in range(len(self.columns)):
            column = self.columns[c]
            assert column in row, "a row has no column " + column
            text = row[column].strip()
            if not self.numeric[c]:
                if row[column] in self.categories[c]:
                    text = row[column]  # quoted, with spaces around it
                if text in self.categories[c]:
                    features[i, self.categories[c][text]] = 1.0
            elif text in self.missing_words:
                features[i, self.first[c]] = self.nan
            else:
                features[i, self.first[c]] = self.number_in(column, text)
    return features.to(self.mean.device)

def forward(self, features: Tensor) -> Tensor:
    x = features.double()
    x = torch.where(torch.isnan(x), self.missing, x.float().double())
    x = ((x - self.mean) / self.deviation).float()
    return self.answer(self.model.forward(x))
)";

const char* const kVectors = R"(
def forward(self, features: Tensor) -> Tensor:
    return self.answer(self.model.forward(features.float()))
)";

// Rows of keys: forward() takes keys, or -1 in an empty slot, and their values.
const char* const kKeys = R"(
def forward(self, keys: Tensor, values: Tensor) -> Tensor:
    fits = keys.dim() == 2 and keys.size(1) == self.slots and values.size() == keys.size()
    assert fits, "expected keys and values: [count, slots] each"
    assert bool((keys >= -1).all()), "a key is 0 or above, or -1 in an empty slot"
    return self.answer(self.model.forward(keys, values.double()))
)";

// Tables of the user's own, as src/data/keyed_columns.cc reads them. Integers of TorchScript are
// int64 and wrap around; its shifts to the right repeat the sign, so a mask follows. Indices of
// texts count bytes. The kinds of columns are those of data::KeyedColumn.
const char* const kKeyedColumns = R"(
def key_of(self, salt: int, category: str) -> int:
    hash = -3750763034362895579
    for i in range(len(category)):
        hash = (hash ^ ord(category[i])) * 1099511628211
    z = (salt ^ hash) + -7046029254386353131
    z = (z ^ ((z >> 30) & 17179869183)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 137438953471)) * -7723592293110705685
    z = z ^ ((z >> 31) & 8589934591)
    return (z >> 1) & 9223372036854775807

def encode(self, rows: List[Dict[str, str]]) -> Tuple[Tensor, Tensor]:
    keys: List[int] = []
    values: List[float] = []
    for row in rows:
        for c in range(len(self.columns)):
            column = self.columns[c]
            assert column in row, "a row has no column " + column
            text = row[column].strip(self.spaces)
            missing = text in self.missing_words
            key = -1
            if self.kinds[c] == self.text_kind:
                if not missing:
                    key = self.key_of(self.salts[c], text)
                keys.append(key)
                values.append(0.0 if missing else 1.0)
                continue
            value = 0.0
            if not missing:
                number = self.number_in(column, text)
                value = (number - self.means[c]) / self.deviations[c]
                value = max(min(value, self.most_deviations), -self.most_deviations)
                if self.kinds[c] == self.number_kind:
                    bucket = 0
                    for bound in self.bounds[c]:
                        if bound <= number:
                            bucket += 1
                    key = self.key_of(self.salts[c], str(bucket))
                elif abs(number) <= self.most_whole and number == float(int(number)):
                    key = self.key_of(self.salts[c], str(int(number)))
            keys.append(key)
            values.append(0.0 if key < 0 else 1.0)
            keys.append(-1 if missing else self.value_keys[c])
            values.append(value)
    device = self.position.device
    shape = [len(rows), self.slots]
    # Values are float32 in Tally.
    return (torch.tensor(keys, device=device).long().reshape(shape),
            torch.tensor(values, device=device).float().reshape(shape))
)";
const char* const kPredictRows = R"(
    keys, values = self.encode(inputs)
    return self.best(self.forward(keys, values))
)";

// Texts: the model computes whole contexts. Later symbols do not change the scores of earlier ones,
// so a shorter text is filled up. continued() returns the new symbols.
const char* const kSymbols = R"(
def forward(self, symbols: Tensor) -> Tensor:
    length = symbols.size(1)
    assert length <= self.context, "the text is longer than the context of the model"
    filled = torch.zeros([symbols.size(0), self.context], device=symbols.device).long()
    filled[:, :length] = symbols
    return self.model.forward(filled)[:, :length]

def continued(self, begin: List[int], tokens: int, temperature: float) -> List[int]:
    symbols = begin[:]
    for _ in range(tokens):
        window = torch.tensor(symbols[-self.context:], device=self.position.device)
        scores = self.forward(window.unsqueeze(0))[0, -1]
        if temperature <= 0.0:
            symbols.append(int(scores.argmax()))
        else:
            symbols.append(int(torch.multinomial(torch.softmax(scores / temperature, -1), 1)))
    return symbols[len(begin):]
)";
const char* const kCharacters = R"(
def encode(self, text: str) -> Tensor:
    symbols: List[int] = []
    i = 0
    while i < len(text):
        lead = ord(text[i])
        length = 1
        if lead >= 240:
            length = 4
        elif lead >= 224:
            length = 3
        elif lead >= 192:
            length = 2
        symbol = text[i:i + length]
        assert symbol in self.number_of, "the model was not trained on '" + symbol + "'"
        symbols.append(self.number_of[symbol])
        i += length
    return torch.tensor(symbols)

def decode(self, symbols: List[int]) -> str:
    return "".join([self.classes[symbol] for symbol in symbols])

def generate(self, prompt: str, tokens: int, temperature: float) -> str:
    symbols: List[int] = []
    if len(prompt) > 0:
        symbols = [int(symbol) for symbol in self.encode(prompt)]
    elif "\n" in self.number_of:
        symbols = [self.number_of["\n"]]
    else:
        symbols = [0]
    return prompt + self.decode(self.continued(symbols, tokens, temperature))
)";
// Texts of bytes. decode() replaces bytes that are not UTF-8, as Python's errors="replace" does,
// but each by a character of its own.
const char* const kBytes = R"(
def encode(self, text: str) -> Tensor:
    return torch.tensor([ord(text[i]) for i in range(len(text))]).long()

def utf8_length(self, symbols: List[int], at: int) -> int:
    lead = symbols[at]
    if lead < 128:
        return 1
    length = 0
    if lead >= 194 and lead < 224:
        length = 2
    elif lead >= 224 and lead < 240:
        length = 3
    elif lead >= 240 and lead < 245:
        length = 4
    if length == 0 or at + length > len(symbols):
        return 0
    for i in range(at + 1, at + length):
        if symbols[i] < 128 or symbols[i] >= 192:
            return 0
    second = symbols[at + 1]
    # Overlong forms, surrogates, and numbers above U+10FFFF.
    if (lead == 224 and second < 160) or (lead == 237 and second >= 160):
        return 0
    if (lead == 240 and second < 144) or (lead == 244 and second >= 144):
        return 0
    return length

def decode(self, symbols: List[int]) -> str:
    parts: List[str] = []
    i = 0
    while i < len(symbols):
        length = self.utf8_length(symbols, i)
        if length == 0:
            parts.append(self.replacement)
        for k in range(length):
            parts.append(chr(symbols[i + k]))
        i += max(length, 1)
    return "".join(parts)

def generate_bytes(self, prompt: List[int], tokens: int, temperature: float) -> List[int]:
    for byte in prompt:
        assert byte >= 0 and byte <= 255, "a byte is a number from 0 to 255"
    begin = prompt if len(prompt) > 0 else [10]
    return prompt + self.continued(begin, tokens, temperature)

def generate(self, prompt: str, tokens: int, temperature: float) -> str:
    symbols = [ord(prompt[i]) for i in range(len(prompt))]
    return self.decode(self.generate_bytes(symbols, tokens, temperature))
)";

}  // namespace tally::app::torchscript
