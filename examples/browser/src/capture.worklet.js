/** Runs in the audio thread: sends the samples of the microphone to the page, in chunks of a tenth of a second. */

class Capture extends AudioWorkletProcessor {
  chunk = new Float32Array(Math.round(sampleRate / 10));
  length = 0;

  process([channels]) {
    if (!channels.length) return true;
    for (let i = 0; i < channels[0].length; i++) {
      const sum = channels.reduce((total, channel) => total + channel[i], 0);
      this.chunk[this.length++] = sum / channels.length;
      if (this.length === this.chunk.length) {
        this.port.postMessage(this.chunk);
        this.length = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
