"""A TCP proxy on loopback that can cut its clients off as a broken network does: nothing arrives any more, nobody is told."""
import selectors
import socket
import threading

BYTES = 65536


class Proxy:
    """Forwards to 127.0.0.1:`target`. `port`: where it listens. Threads: any."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.lock = threading.Lock()  # guards what follows
        self.peers = {}  # socket -> its other side; None: cut off
        self.is_cut = False
        self.accepted = 0  # connections so far
        self.closed = False
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def cut(self):
        """What is under way is lost. Connections stay open and silent, new ones too."""
        with self.lock:
            self.is_cut = True
            for inner in [s for s, outer in self.peers.items() if getattr(outer, "from_client", False)]:
                self.drop(inner)

    def heal(self):
        """New connections work again; the old ones break."""
        with self.lock:
            self.is_cut = False
            for outer in [s for s, inner in self.peers.items() if inner is None]:
                self.drop(outer)

    def close(self):
        with self.lock:
            self.closed = True
        self.thread.join(10)
        with self.lock:
            for peer in list(self.peers):
                self.drop(peer)
            self.listener.close()
            self.selector.close()

    def drop(self, peer):
        """With the lock held."""
        other = self.peers.pop(peer, None)
        if other in self.peers:
            self.peers[other] = None
        try:
            self.selector.unregister(peer)
        except KeyError:
            pass
        peer.close()

    def accept(self):
        outer = Side(fileno=self.listener.accept()[0].detach())
        outer.from_client = True
        self.accepted += 1
        if self.is_cut:
            self.peers[outer] = None
            return
        try:
            inner = Side(fileno=socket.create_connection(("127.0.0.1", self.target), timeout=5).detach())
        except OSError:
            outer.close()
            return
        self.peers[outer], self.peers[inner] = inner, outer
        for side in (outer, inner):
            side.settimeout(10)
            self.selector.register(side, selectors.EVENT_READ)

    def forward(self, peer):
        other = self.peers.get(peer)
        if other is None:
            if peer in self.peers and peer.from_client and self.is_cut:
                self.selector.unregister(peer)  # nobody reads it: what is sent goes nowhere
            return
        try:
            data = peer.recv(BYTES)
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self.drop(peer)
            self.drop(other)

    def loop(self):
        while True:
            ready = self.selector.select(0.2)
            with self.lock:
                if self.closed:
                    return
                for key, _ in ready:
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.peers:
                        self.forward(key.fileobj)


class Side(socket.socket):
    """One end of a connection through the proxy."""
    from_client = False
