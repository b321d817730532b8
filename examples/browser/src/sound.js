/** Audio as chunks of mono samples at the model's rate, from the microphone or a file. */

import worklet from "./capture.worklet.js?url";

/**
 * Listen to the microphone.
 *
 * @param {number} rate Samples per second; the browser resamples.
 * @param {(samples: Float32Array) => void} onChunk
 * @returns {Promise<() => void>} Stops listening.
 */
export async function listen(rate, onChunk) {
  if (!navigator.mediaDevices) throw new Error("The microphone needs a page served over https, or from this machine.");
  // The model was trained on recordings as they are, not on speech that a telephone call would pass on.
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  let media;
  try {
    media = await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new Error(`The microphone cannot be used: ${error.message}`);
  }
  const context = new AudioContext({ sampleRate: rate });
  const stop = () => {
    media.getTracks().forEach((track) => track.stop());
    context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL(worklet, import.meta.url));
    const capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
    capture.port.onmessage = ({ data }) => onChunk(data);
    context.createMediaStreamSource(media).connect(capture);
    await context.resume();
  } catch (error) {
    stop();
    throw new Error(`This browser cannot read the microphone at ${rate} samples per second: ${error.message}`);
  }
  return stop;
}

/**
 * Decode an audio file.
 *
 * @param {File} file
 * @param {number} rate
 * @returns {Promise<Float32Array[]>} Chunks of a tenth of a second.
 */
export async function decode(file, rate) {
  let audio;
  try {
    audio = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} cannot be read as audio by this browser.`);
  }
  const channels = Array.from({ length: audio.numberOfChannels }, (_, i) => audio.getChannelData(i));
  const mono = channels[0].map((_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
  const size = Math.round(rate / 10);
  return Array.from({ length: Math.ceil(mono.length / size) }, (_, i) => mono.subarray(i * size, (i + 1) * size));
}
