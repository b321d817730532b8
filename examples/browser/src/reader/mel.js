/**
 * Log magnitudes in mel bands, a hundred frames per second: the front end of YAMNet, as `nystream.data.mel` has it.
 *
 * A frame is 25 ms under a Hann window, every 10 ms, with a 512-point Fourier transform. Its magnitudes are summed in
 * 64 triangular bands between 125 and 7500 Hz, equally spaced on the mel scale 1127 ln(1 + f/700).
 */

export const RATE = 16_000;
export const FRAME = 400;
export const HOP = 160;
export const BANDS = 64;
const POINTS = 512;
const [LOWEST, HIGHEST] = [125, 7500];
const OFFSET = 0.001; // added before the logarithm, so that silence has one

const WINDOW = Float64Array.from({ length: FRAME }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FRAME));
const FILTERS = melFilters();
const [REAL, IMAGINARY] = [new Float64Array(POINTS), new Float64Array(POINTS)];
const COSINE = Float64Array.from({ length: POINTS / 2 }, (_, i) => Math.cos((2 * Math.PI * i) / POINTS));
const SINE = Float64Array.from({ length: POINTS / 2 }, (_, i) => -Math.sin((2 * Math.PI * i) / POINTS));

/**
 * Return the log-mel bands of one frame.
 *
 * @param {Float32Array} samples
 * @param {number} start The first of the frame's 400 samples.
 * @returns {Float64Array} [64]
 */
export function logMel(samples, start) {
  REAL.fill(0);
  IMAGINARY.fill(0);
  for (let i = 0; i < FRAME; i++) REAL[i] = samples[start + i] * WINDOW[i];
  transform(REAL, IMAGINARY);
  const bands = new Float64Array(BANDS);
  FILTERS.forEach(({ first, weights }, band) => {
    let sum = 0;
    weights.forEach((weight, i) => (sum += weight * Math.hypot(REAL[first + i], IMAGINARY[first + i])));
    bands[band] = Math.log(sum + OFFSET);
  });
  return bands;
}

/** The weights of the frequencies in each band that are not zero. */
function melFilters() {
  const mel = (frequency) => 1127 * Math.log1p(frequency / 700);
  const [lowest, highest] = [mel(LOWEST), mel(HIGHEST)];
  const edge = (i) => lowest + ((highest - lowest) * i) / (BANDS + 1);
  const bins = Array.from({ length: POINTS / 2 + 1 }, (_, i) => mel((i * RATE) / POINTS));
  return Array.from({ length: BANDS }, (_, band) => {
    const [low, centre, high] = [edge(band), edge(band + 1), edge(band + 2)];
    const share = (value) => Math.min((value - low) / (centre - low), (high - value) / (high - centre));
    const inside = bins.map((value, i) => (i > 0 && share(value) > 0 ? i : -1)).filter((i) => i >= 0);
    return { first: inside[0] ?? 0, weights: inside.map((i) => share(bins[i])) };
  });
}

/** The Fourier transform of a power of two of points, in place. */
function transform(real, imaginary) {
  const size = real.length;
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  for (let length = 2; length <= size; length *= 2) {
    const [half, stride] = [length / 2, size / length];
    for (let start = 0; start < size; start += length) {
      for (let k = 0; k < half; k++) {
        const [even, odd] = [start + k, start + k + half];
        const [cosine, sine] = [COSINE[k * stride], SINE[k * stride]];
        const re = real[odd] * cosine - imaginary[odd] * sine;
        const im = real[odd] * sine + imaginary[odd] * cosine;
        real[odd] = real[even] - re;
        imaginary[odd] = imaginary[even] - im;
        real[even] += re;
        imaginary[even] += im;
      }
    }
  }
}
