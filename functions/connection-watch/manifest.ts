export const manifest = {
  name: 'connection-watch',
  summary:
    'Turns Kubernetes watch events of Connections and PublicKeys into CHANGES, each once however many replicas run',
} as const;
