// The other side of test_interop.py: js-libp2p's yamux on a TCP connection to 127.0.0.1.
//
// usage: peer.mjs client|server PORT        (which side of yamux it is; it is always the TCP client)
// Every stream that it is sent is served by the word with which the stream begins:
//   echo: what follows comes back, and the end after the end; after: all that follows, once the end has come;
//   sink: nothing comes back; reset: the stream is reset.
// Every line on standard input is a command, as JSON; each is answered by one line on standard output.
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { yamux } from '@chainsafe/libp2p-yamux'

const [side, port] = process.argv.slice(2)
const silent = Object.assign(() => {}, { trace () {}, error () {} })
const say = (answer) => console.log(JSON.stringify(answer))

async function collect (source) {
  const chunks = []
  for await (const list of source) chunks.push(list.subarray())
  return Buffer.concat(chunks)
}

async function serve (stream) {
  const first = Buffer.from((await stream.source.next()).value.subarray())
  const word = first.toString('latin1', 0, 5)
  const rest = (async function * () { yield first.subarray(5); yield * stream.source })()
  if (word === 'reset') return stream.abort(new Error('as asked'))
  if (word === 'echo:') return stream.sink(rest)
  const all = await collect(rest)
  return stream.sink(word === 'after' ? [all] : [])
}

const muxer = yamux({ enableKeepAlive: false })({ logger: { forComponent: () => silent } }).createStreamMuxer({
  direction: side === 'client' ? 'outbound' : 'inbound',
  onIncomingStream: (stream) => { serve(stream).catch(() => {}) }
})

const commands = {
  // Send `bytes` bytes on each of `streams` streams, half-close, and read to the end: a digest of each.
  async open ({ streams, bytes }) {
    const one = async (number) => {
      const stream = muxer.newStream()
      const payload = Buffer.alloc(bytes, `stream ${number}, `)
      const [answer] = await Promise.all([collect(stream.source), stream.sink([payload])])
      return createHash('sha256').update(answer).digest('hex')
    }
    return Promise.all(Array.from({ length: streams }, (_, number) => one(number)))
  },
  async ping () { return muxer.ping() },
  // Open a stream, send a word, reset it.
  async abort () {
    const stream = muxer.newStream()
    stream.sink((async function * () { yield Buffer.from('hello'); await new Promise(() => {}) })()).catch(() => {})
    await new Promise((resolve) => setImmediate(resolve))
    stream.abort(new Error('as asked'))
    return stream.status
  },
  async close () { return muxer.close() }
}

const socket = connect(Number(port), '127.0.0.1')
socket.on('error', () => {})
const sent = (async () => { for await (const chunk of muxer.source) socket.write(chunk.subarray()) })()
muxer.sink(socket).catch(() => {})
sent.then(() => { say({ ended: muxer.remoteGoAway ?? null }); socket.end() })
createInterface({ input: process.stdin }).on('line', async (line) => {
  const { name, ...options } = JSON.parse(line)
  try {
    say({ answer: (await commands[name](options)) ?? null })
  } catch (error) {
    say({ error: `${error.name}: ${error.message}` })
  }
}).on('close', () => process.exit(0))
